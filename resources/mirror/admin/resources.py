"""The admin of mirrored URLs: state and reason of each in words, re-fetching, taking down."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST

from resources import humanize
from resources.changelists import DIGEST_PATTERN

from ..canonical.urls import candidate_digests
from ..errors import UrlError
from ..ingest import wanted_urls
from ..models import Blob, Resource
from ..url_rules import current_rules
from .mirrored_files import ExactSearchAdmin, ask_or_take_down

_FAILURE_SENTENCES = {
    "permanent": "The server does not give it.",
    "transient": "The server failed each time.",
    "throttled": "The server refused requests for too long.",
    "postponed": "Redirected to a resting host.",
    "ours": "Failure of this site, not of the server.",
    "refused": "The address is not allowed.",
    "too big": "Too large.",
    "too slow": "Too slow.",
    "expired": "The signature in the URL expired: report the URL with a new one.",
    "blocked": "The host is blocked by an admin.",
    "taken down": "The file was taken down.",
}

_STEP_SENTENCES = {
    "known": "Known already.",
    "redirect": "Redirected to a known URL: body not downloaded.",
    "validators": "Validators of a known content: body not downloaded.",
    "unchanged": "Fetched again, unchanged.",
    "content": "Downloaded, same bytes as a known file.",
    "new": "Downloaded and stored as a new file.",
}


def explain_url(row: Resource, now: datetime) -> list[str]:
    """Returns sentences about the state of a URL, the most important first."""
    if row.state == "stored":
        return [_STEP_SENTENCES.get(row.step, "Stored.")]
    lines = [_FAILURE_SENTENCES.get(row.failure, "Not fetched.") if row.state == "failed" else _explain_wait(row, now)]
    if row.state == "wanted" and row.attempts:
        lines.append(f"{row.attempts:,} {'attempt' if row.attempts == 1 else 'attempts'} so far.")
    if row.detail and _as_sentence(row.detail) not in lines:
        lines.append(_as_sentence(row.detail))
    return [*lines, _explain_retry(row, now)] if row.state == "failed" else lines


def _explain_retry(row: Resource, now: datetime) -> str:
    if row.due_at is None:
        return "No request has it tried again."
    if row.due_at > now:
        return f"Tried again by the first request {humanize.format_ago(row.due_at, now)} or later."
    return "Tried again by the next request."


def _explain_wait(row: Resource, now: datetime) -> str:
    if row.due_at is None:
        return "Waiting, without a time."
    if row.due_at > now:
        return f"Retried {humanize.format_ago(row.due_at, now)}."
    return "Queued or being fetched."


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


MAX_SHOWN_CHARACTERS = 90
LABELS = {"url_digest": "URL digest", "due_at": "Earliest next fetch", "etag": "ETag", "detail": "Reason"}


@admin.register(Resource)
class ResourceAdmin(ExactSearchAdmin):
    list_display = ("short_url", "stands", "listed_file", "fetched")
    list_filter = ("state", "step", "lane")
    search_fields = ("url_digest",)
    search_help_text = "Search by URL, digest (of a URL or file) or host (exact)."
    actions = ("refetch", "take_down")
    change_form_template = "admin/resources/resource/change_form.html"
    fieldsets = (
        (None, {"fields": ("link", "referer", "host", "url_digest", "moved_to", "lane")}),
        ("Times", {"fields": ("wanted_at", "due_at", "fetched_at", "expires_at", "attempts", "rounds")}),
        ("Last response", {"fields": ("status", "failure", "detail", "etag", "last_modified")}),
    )

    @admin.display(description="URL")
    def short_url(self, row: Resource) -> SafeString:
        text = row.url if len(row.url) <= MAX_SHOWN_CHARACTERS else f"{row.url[: MAX_SHOWN_CHARACTERS - 1]}…"
        return format_html('<span title="{}">{}</span>', row.url, text)

    @admin.display(description="state")
    def stands(self, row: Resource) -> str:
        how = row.get_step_display() if row.state == "stored" else row.detail or row.failure
        return f"{row.state}: {how[:MAX_SHOWN_CHARACTERS]}" if how else row.state

    @admin.display(description="file")
    def listed_file(self, row: Resource) -> SafeString | str:
        if not row.blob_digest:
            return "–"
        address = reverse("admin:resources_blob_change", args=[row.blob_digest])
        return format_html('<a href="{}"><code>{}</code></a>', address, row.blob_digest[:12])

    @admin.display(description="fetched")
    def fetched(self, row: Resource) -> str:
        return humanize.format_ago(row.fetched_at, datetime.now(UTC))

    @admin.display(description="URL")
    def link(self, row: Resource) -> SafeString:
        return format_html('<a href="{0}" rel="noreferrer noopener nofollow">{0}</a>', row.url)

    def get_readonly_fields(self, request: HttpRequest, obj: Resource | None = None) -> list[str]:
        return [str(name) for _, options in self.fieldsets for name in options["fields"]]

    def get_form(self, request: HttpRequest, obj: Resource | None = None, change: bool = False, **options: Any) -> Any:
        return super().get_form(request, obj, change, **{**options, "labels": LABELS, "help_texts": {"due_at": ""}})

    def find_exactly(self, request: HttpRequest, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        if DIGEST_PATTERN.fullmatch(term.lower()):
            return queryset.filter(Q(url_digest=term.lower()) | Q(blob_digest=term.lower()))
        if "://" not in term:
            return queryset.filter(host=term.lower())
        try:
            return queryset.filter(url_digest__in=candidate_digests(term, current_rules()))
        except (UrlError, UnicodeEncodeError) as error:
            self.message_user(request, str(error), messages.WARNING)
            return queryset.none()

    @admin.action(description="Fetch again", permissions=["change"])
    def refetch(self, request: HttpRequest, queryset: QuerySet[Resource]) -> None:
        rows = list(queryset)
        number = wanted_urls.refetch_urls([row.pk for row in rows], datetime.now(UTC))
        for row in rows:
            self.log_change(request, row, "Queued for fetching.")
        left = f" Not fetched, blocked or taken down: {len(rows) - number}." if number < len(rows) else ""
        self.message_user(
            request, f"Queued for fetching: {number}.{left}", messages.WARNING if left else messages.SUCCESS
        )

    @admin.action(description="Take down files", permissions=["change"])
    def take_down(self, request: HttpRequest, queryset: QuerySet[Resource]) -> TemplateResponse | None:
        digests = sorted({row.blob_digest for row in queryset if row.blob_digest})
        return ask_or_take_down(self, request, queryset, digests)

    def get_urls(self) -> list[URLPattern]:
        act = self.admin_site.admin_view(self.refetch_view)
        return [path("<path:pk>/refetch/", act, name="resources_resource_refetch"), *super().get_urls()]

    @method_decorator(require_POST)
    @method_decorator(csrf_protect)
    def refetch_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Fetches a URL again: the button of its page."""
        row = Resource.objects.filter(pk=unquote(pk)).first()
        if row is None or not self.has_change_permission(request, row):
            raise Http404("No such URL.")
        self.refetch(request, Resource.objects.filter(pk=row.pk))
        return HttpResponseRedirect(reverse("admin:resources_resource_change", args=[row.pk]))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds the state in words, and the file."""
        row: Resource | None = options.get("obj")
        if row is not None:
            blob = Blob.objects.filter(pk=row.blob_digest).first() if row.blob_digest else None
            context |= {
                "sentences": explain_url(row, datetime.now(UTC)),
                "blob": blob,
                "size": humanize.format_size(blob.size) if blob else "",
                "show_save": False,
                "show_save_and_continue": False,
            }
        return super().render_change_form(request, context, *args, **options)
