"""The admin of this site's own hub: its topics, and their subscribers, which admins may end."""

from datetime import UTC, datetime

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from resources import humanize

from ..hub_models import HubTopic, Subscriber
from ..push.leases import SubscriberStatus
from .related import MAX_SHOWN_CHARACTERS, UnchangeableAdmin

_IN_FORCE = Q(subscribers__state=SubscriberStatus.VERIFIED.value)


@admin.register(HubTopic)
class HubTopicAdmin(UnchangeableAdmin):
    list_display = ("address", "number", "told")
    fields = readonly_fields = ("path", "feed", "category", "number", "told")
    search_fields = ("path",)
    search_help_text = "Search by path."

    @admin.display(description="topic", ordering="path")
    def address(self, topic: HubTopic) -> SafeString:
        about = f"{topic.entries} entries in a delivery" if topic.entries else "whole pages"
        link = format_html('<a class="name" href="{}">{}</a>', topic.path, topic.path)
        return format_html('{}<span class="quiet">{}</span>', link, about)

    @admin.display(description="subscribers", ordering="number")
    def number(self, topic: HubTopic) -> SafeString:
        there = f"{reverse('admin:feeds_subscriber_changelist')}?topic__id__exact={topic.pk}"
        return format_html('<a href="{}">{}</a>', there, f"{topic.number:,} in force")  # type: ignore[attr-defined]

    @admin.display(description="last told of", ordering="announced_at")
    def told(self, topic: HubTopic) -> str:
        return humanize.format_ago(topic.announced_at, datetime.now(UTC))

    def get_queryset(self, request: HttpRequest) -> QuerySet[HubTopic]:
        rows: QuerySet[HubTopic] = super().get_queryset(request)
        return rows.annotate(number=Count("subscribers", filter=_IN_FORCE))


@admin.register(Subscriber)
class SubscriberAdmin(UnchangeableAdmin):
    """Deleting a row ends the subscription at once: nothing more is sent to its callback."""

    list_display = ("at", "of_topic", "stands", "deliveries")
    list_display_links = ("at",)
    fields = readonly_fields = (
        *("topic", "kind", "callback", "stands", "verified_at", "expires_at"),
        *("deliveries", "failures", "due_at", "asked_at"),
    )
    list_filter = ("state", "kind")
    list_select_related = ("topic",)
    search_fields = ("host", "topic__path")
    search_help_text = "Search by the callback's domain or the topic's path."

    @admin.display(description="callback", ordering="host")
    def at(self, row: Subscriber) -> SafeString:
        about = f"{row.get_kind_display()} · {Truncator(row.callback).chars(MAX_SHOWN_CHARACTERS)}"
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', row.host, about)

    @admin.display(description="topic", ordering="topic__path")
    def of_topic(self, row: Subscriber) -> SafeString:
        return format_html('<span class="name">{}</span>', row.topic.path)

    @admin.display(description="state", ordering="state")
    def stands(self, row: Subscriber) -> SafeString:
        lease = f"Its lease ends {humanize.format_ago(row.expires_at, datetime.now(UTC))}." if row.expires_at else ""
        about = " ".join(filter(None, (row.reason, lease)))
        return format_html('<span class="reason">{}</span><span class="quiet">{}</span>', row.state, about)

    @admin.display(description="deliveries", ordering="delivered")
    def deliveries(self, row: Subscriber) -> SafeString:
        last = f"the last {humanize.format_ago(row.delivered_at, datetime.now(UTC))}" if row.delivered_at else ""
        return format_html('{}<span class="quiet">{}</span>', f"{row.delivered:,}", last)

    def has_delete_permission(self, request: HttpRequest, obj: Subscriber | None = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup == "topic__id__exact" or super().lookup_allowed(lookup, value, request)
