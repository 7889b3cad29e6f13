"""The admin of hubs and clouds, and of what is subscribed at them: how each stands, and how far it is trusted."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from resources import words
from resources.listing import UncountedAdmin

from ..keeping import pushed
from ..pushing.renewing import State
from ..subscriptions import Hub, Subscription


class Unchanged(UncountedAdmin):
    """What the site keeps by itself."""

    list_display_links = None

    class Media:
        css = {"all": ("feeds/admin.css",)}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class TrustFilter(admin.SimpleListFilter):
    title, parameter_name = "trust", "trust"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("trusted", "trusted"), ("lost", "not any more"), ("never", "never told of news")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Hub]) -> QuerySet[Hub]:
        chosen = {
            "trusted": Q(trusted_since__isnull=False),
            "lost": Q(trusted_since=None, first_push_at__isnull=False),
            "never": Q(first_push_at=None),
        }
        return queryset.filter(chosen.get(self.value() or "", Q()))


@admin.register(Hub)
class HubAdmin(Unchanged):
    list_display = ("address", "feeds", "trust", "last_push")
    list_filter = ("kind", TrustFilter)
    search_fields = ("url",)
    search_help_text = "A part of its address."

    @admin.display(description="hub or cloud", ordering="url")
    def address(self, hub: Hub) -> SafeString:
        about = hub.get_kind_display()
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', hub.url, about)

    @admin.display(description="feeds")
    def feeds(self, hub: Hub) -> SafeString | str:
        counts = [f"{number:,} {state}" for state, number in _counts(hub)]
        there = f"{reverse('admin:feeds_subscription_changelist')}?hub__id__exact={hub.pk}"
        return format_html('<a href="{}">{}</a>', there, ", ".join(counts)) if counts else "none"

    @admin.display(description="trust", ordering="share")
    def trust(self, hub: Hub) -> str:
        return pushed.of_hub(hub)

    @admin.display(description="last push with news", ordering="last_push_at")
    def last_push(self, hub: Hub) -> str:
        return words.ago(hub.last_push_at, datetime.now(UTC))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Hub]:
        counts = {_named(state): Count("subscriptions", filter=Q(subscriptions__state=state.value)) for state in State}
        rows: QuerySet[Hub] = super().get_queryset(request)
        return rows.annotate(**counts)


@admin.register(Subscription)
class SubscriptionAdmin(Unchanged):
    list_display = ("of_feed", "stands", "trust", "next_request")
    list_filter = ("state", "hub__kind")
    list_select_related = ("feed", "hub")
    search_fields = ("topic", "feed__slug")
    search_help_text = "A part of a topic, or of a feed's slug."

    @admin.display(description="feed, and who tells of it", ordering="topic")
    def of_feed(self, subscription: Subscription) -> SafeString:
        about = f"{subscription.hub.url} · {subscription.hub.get_kind_display()}"
        if subscription.feed is None:
            there, title = "", f"{subscription.topic}, deleted"
        else:
            there, title = (
                reverse("admin:feeds_feed_change", args=[subscription.feed.pk]),
                subscription.feed.shown_title,
            )
        named = '<a class="name" href="{}">{}</a>' if there else '<span class="name" title="{}">{}</span>'
        return format_html(named + '<span class="quiet">{}</span>', there, title, about)

    @admin.display(description="how it stands", ordering="state")
    def stands(self, subscription: Subscription) -> SafeString:
        return format_html('{}<span class="quiet">{}</span>', subscription.state, subscription.reason)

    @admin.display(description="trust", ordering="in_a_row")
    def trust(self, subscription: Subscription) -> str:
        return pushed.of_subscription(subscription)

    @admin.display(description="next request", ordering="due_at")
    def next_request(self, subscription: Subscription) -> str:
        return "–" if subscription.due_at is None else words.ago(subscription.due_at, datetime.now(UTC))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup == "hub__id__exact" or super().lookup_allowed(lookup, value, request)


def _counts(hub: Hub) -> list[tuple[str, int]]:
    """How many subscriptions are in each state, as the list has counted them."""
    counted = [(state.value, getattr(hub, _named(state))) for state in State]
    return [(name, number) for name, number in counted if number]


def _named(state: State) -> str:
    return f"number_{state.name.lower()}"
