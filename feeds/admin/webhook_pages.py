"""The admin of webhooks, and of their calls: those that wait, and those that were given up."""

import json
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from resources import humanize
from resources.fetch.http.messages import FetchError
from resources.fetch.http.url_syntax import parse_target

from .. import change_calls, credentials
from ..change_rows import Webhook, WebhookCall
from ..errors import PageQueryError
from ..pages.search_terms import SearchQuery
from .related import MAX_SHOWN_CHARACTERS, UnchangeableAdmin

WANTED_FIELDS = ("name", "url", "feed", "category", "words", "with_changes", "enabled")
_REASONED = '<span class="reason">{}</span><span class="quiet">{}</span>'
_CALLS = "admin:feeds_webhookcall_changelist"


class WebhookForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Webhook
        fields = WANTED_FIELDS
        help_texts: ClassVar[dict[str, str]] = {
            "url": "It is called with each batch of entries, by a signed POST.",
            "feed": "Only its entries. Without a feed and a category: those of all feeds.",
            "category": "Only entries of its feeds, and of those in categories below it.",
        }

    def clean_url(self) -> str:
        given: str = self.cleaned_data["url"]
        try:
            if "@" in urlsplit(given).netloc:
                raise ValidationError("Users and passwords before the host are not sent. Go by the signature.")
            return str(parse_target(given).url)
        except (FetchError, ValueError) as error:
            raise ValidationError(f"Calls cannot be sent there: {error}") from error

    def clean_words(self) -> str:
        words: str = self.cleaned_data["words"]
        try:
            SearchQuery.read("The search", words)
        except PageQueryError as error:
            raise ValidationError(str(error)) from error
        return words

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("feed") and cleaned.get("category"):
            self.add_error("category", "Choose a feed or a category, not both.")
        return cleaned


@admin.register(Webhook)
class WebhookAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    form = WebhookForm
    list_display = ("named", "selects", "enabled", "calls", "answered")
    list_display_links = ("named",)
    list_select_related = ("feed", "category")
    search_fields = ("name", "url")
    search_help_text = "Search by name or address."
    autocomplete_fields = ("feed", "category")
    readonly_fields = ("calls", "delivered_calls", "answered")
    actions = ("send_test", "replace_secret")
    show_full_result_count = False

    class Media:
        css: ClassVar[dict[str, tuple[str, ...]]] = {"all": ("feeds/admin.css",)}

    @admin.display(description="webhook", ordering="name")
    def named(self, webhook: Webhook) -> SafeString:
        shown = Truncator(webhook.url).chars(MAX_SHOWN_CHARACTERS)
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', webhook.name, shown)

    @admin.display(description="entries of")
    def selects(self, webhook: Webhook) -> SafeString:
        words = f"with “{webhook.words}”" if webhook.words else ""
        subject = webhook.feed or webhook.category or "all feeds"
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', subject, words)

    @admin.display(description="calls")
    def calls(self, webhook: Any) -> SafeString:
        there = f"{reverse(_CALLS)}?webhook__id__exact={webhook.pk}&state="
        numbers = (("waiting", "waiting", webhook.waiting_calls), ("given-up", "given up", webhook.given_up_calls))
        links = [(f"{there}{state}", f"{number:,} {words}") for state, words, number in numbers if number]
        return format_html_join(" ", '<a class="calls" href="{}">{}</a>', links) or format_html("{}", "none")

    @admin.display(description="last answer", ordering="delivered_at")
    def answered(self, webhook: Webhook) -> SafeString:
        ago = humanize.format_ago(webhook.delivered_at, datetime.now(UTC))
        about = f"last delivery {ago}" if webhook.delivered_at else "nothing delivered yet"
        return format_html(_REASONED, webhook.answer or "not called yet", about)

    @admin.display(description="calls delivered")
    def delivered_calls(self, webhook: Webhook) -> str:
        return f"{webhook.delivered:,}"

    def get_fields(self, request: HttpRequest, obj: Webhook | None = None) -> Any:
        return WANTED_FIELDS if obj is None else (*WANTED_FIELDS, *self.readonly_fields)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Webhook]:
        rows: QuerySet[Webhook] = super().get_queryset(request)
        return rows.annotate(
            waiting_calls=Count("calls", filter=Q(calls__due_at__isnull=False)),
            given_up_calls=Count("calls", filter=Q(calls__due_at=None, calls__isnull=False)),
        )

    @admin.action(description="Send a test", permissions=["change"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> None:
        """Its outcome is the last answer in the list."""
        for webhook in queryset:
            change_calls.write_call(webhook, "test", [], datetime.now(UTC))
        self.message_user(request, "A test is sent within seconds. “Last answer” tells how it ended.")

    @admin.action(description="Replace the secret", permissions=["change"])
    def replace_secret(self, request: HttpRequest, queryset: QuerySet[Webhook]) -> HttpResponse | None:
        if queryset.count() != 1:
            self.message_user(request, "Select one webhook.", messages.WARNING)
            return None
        webhook = queryset.get()
        secret = change_calls.make_secret()
        Webhook.objects.filter(pk=webhook.pk).update(sealed_secret=credentials.seal_password(secret))
        self.log_change(request, webhook, "Secret replaced.")
        return self._show_secret(request, webhook, secret)

    def save_model(self, request: HttpRequest, obj: Webhook, form: Any, change: bool) -> None:
        """Saves the fields changed in the form alone: passes write to the same row."""
        if change:
            obj.save(update_fields=[name for name in form.changed_data if name in form.cleaned_data])
            return
        secret = request.META["tarry.secret"] = change_calls.make_secret()
        obj.sealed_secret = credentials.seal_password(secret)
        obj.save()
        change_calls.write_batches(obj, datetime.now(UTC))  # its place is here, and not where the next pass begins

    def response_add(self, request: HttpRequest, obj: Webhook, post_url_continue: str | None = None) -> HttpResponse:
        """Returns the page with the secret. A message would be carried in a cookie."""
        return self._show_secret(request, obj, request.META["tarry.secret"])

    def _show_secret(self, request: HttpRequest, webhook: Webhook, secret: str) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "original": webhook,
            "title": f"The secret of “{webhook}”",
            "secret": secret,
        }
        return TemplateResponse(request, "admin/feeds/webhook/secret.html", context)


class GivenUpFilter(admin.SimpleListFilter):
    title, parameter_name = "state", "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("waiting", "waiting"), ("given-up", "given up")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[WebhookCall]) -> QuerySet[WebhookCall]:
        chosen = {"waiting": Q(due_at__isnull=False), "given-up": Q(due_at=None)}
        return queryset.filter(chosen.get(self.value() or "", Q()))


@admin.register(WebhookCall)
class WebhookCallAdmin(UnchangeableAdmin):
    list_display = ("of_webhook", "made", "entries", "attempts", "stands")
    list_display_links = ("of_webhook",)
    list_filter = (GivenUpFilter, "webhook")
    list_select_related = ("webhook",)
    fields = readonly_fields = ("webhook", "made", "entries", "attempts", "stands", "document")
    actions = ("send_again",)

    @admin.display(description="call", ordering="webhook__name")
    def of_webhook(self, call: WebhookCall) -> SafeString:
        return format_html('<span class="name">{}</span><span class="quiet">{}</span>', call.webhook.name, call.pk)

    @admin.display(description="made", ordering="created_at")
    def made(self, call: WebhookCall) -> str:
        return humanize.format_ago(call.created_at, datetime.now(UTC))

    @admin.display(description="next attempt", ordering="due_at")
    def stands(self, call: WebhookCall) -> SafeString:
        is_late = call.due_at is not None and call.due_at <= datetime.now(UTC)
        due = "now" if is_late else humanize.format_ago(call.due_at, datetime.now(UTC))
        return format_html(_REASONED, "given up" if call.due_at is None else due, call.answer)

    @admin.display(description="body")
    def document(self, call: WebhookCall) -> SafeString:
        return format_html(
            '<pre class="document">{}</pre>', json.dumps(json.loads(call.body), indent=1, ensure_ascii=False)
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[WebhookCall]:
        """The list reads no bodies, which may be long."""
        rows: QuerySet[WebhookCall] = super().get_queryset(request)
        return rows.defer("body")

    @admin.action(description="Send again", permissions=["send"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[WebhookCall]) -> None:
        number = change_calls.send_again(list(queryset.values_list("pk", flat=True)), datetime.now(UTC))
        self.message_user(request, f"Calls that are sent again: {number:,}.")

    def has_send_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("feeds.change_webhook"))
