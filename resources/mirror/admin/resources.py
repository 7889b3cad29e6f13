"""The admin of mirrored URLs: how each stands and why, re-fetching, taking down."""

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

from resources import words

from ..canonical.urls import known_as
from ..errors import UrlError
from ..knowing.models import Blob, Resource
from ..knowing.rules import current_rules
from ..writing import refetching
from .listing import DIGEST, MirroredAdmin
from .taking_down import ask_or_take_down
from .words import why

MOST_SHOWN = 90


@admin.register(Resource)
class ResourceAdmin(MirroredAdmin):
    list_display = ("short_url", "stands", "listed_file", "fetched")
    list_filter = ("state", "step", "lane")
    search_fields = ("url_digest",)
    search_help_text = "A URL in any of its spellings, a digest of a URL or of a file, or a whole host."
    actions = ("refetch", "take_down")
    change_form_template = "admin/resources/resource/change_form.html"
    fieldsets = (
        (None, {"fields": ("link", "referer", "host", "url_digest", "moved_to", "lane")}),
        ("When", {"fields": ("wanted_at", "due_at", "fetched_at", "expires_at", "attempts")}),
        ("What came", {"fields": ("status", "failure", "detail", "etag", "last_modified")}),
    )

    @admin.display(description="URL")
    def short_url(self, row: Resource) -> SafeString:
        text = row.url if len(row.url) <= MOST_SHOWN else f"{row.url[: MOST_SHOWN - 1]}…"
        return format_html('<span title="{}">{}</span>', row.url, text)

    @admin.display(description="stands")
    def stands(self, row: Resource) -> str:
        how = row.get_step_display() if row.state == "stored" else row.detail or row.failure
        return f"{row.state}: {how[:MOST_SHOWN]}" if how else row.state

    @admin.display(description="file")
    def listed_file(self, row: Resource) -> SafeString | str:
        if not row.blob_digest:
            return "–"
        address = reverse("admin:resources_blob_change", args=[row.blob_digest])
        return format_html('<a href="{}"><code>{}</code></a>', address, row.blob_digest[:12])

    @admin.display(description="fetched")
    def fetched(self, row: Resource) -> str:
        return words.ago(row.fetched_at, datetime.now(UTC))

    @admin.display(description="URL")
    def link(self, row: Resource) -> SafeString:
        return format_html('<a href="{0}" rel="noreferrer noopener nofollow">{0}</a>', row.url)

    def get_readonly_fields(self, request: HttpRequest, obj: Resource | None = None) -> list[str]:
        return [str(name) for _, options in self.fieldsets for name in options["fields"]]

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        """By nothing: the whole table would have to be sorted."""
        return ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Resource]:
        return Resource.objects.all()

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        return ("-wanted_at",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Resource], search_term: str
    ) -> tuple[QuerySet[Resource], bool]:
        """By what there is an index for."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if DIGEST.fullmatch(term.lower()):
            return queryset.filter(Q(url_digest=term.lower()) | Q(blob_digest=term.lower())), False
        if "://" not in term:
            return queryset.filter(host=term.lower()), False
        try:
            return queryset.filter(url_digest__in=known_as(term, current_rules())), False
        except (UrlError, UnicodeEncodeError) as error:
            self.message_user(request, str(error), messages.WARNING)
            return queryset.none(), False

    @admin.action(description="Fetch again", permissions=["change"])
    def refetch(self, request: HttpRequest, queryset: QuerySet[Resource]) -> None:
        rows = list(queryset)
        number = refetching.refetch([row.pk for row in rows], datetime.now(UTC))
        for row in rows:
            self.log_change(request, row, "Fetched again.")
        left = f" {len(rows) - number} are of blocked hosts, or taken down." if number < len(rows) else ""
        self.message_user(request, f"Fetched again: {number}.{left}", messages.WARNING if left else messages.SUCCESS)

    @admin.action(description="Take down", permissions=["change"])
    def take_down(self, request: HttpRequest, queryset: QuerySet[Resource]) -> TemplateResponse | None:
        digests = sorted({row.blob_digest for row in queryset if row.blob_digest})
        return ask_or_take_down(self, request, queryset, digests)

    def get_urls(self) -> list[URLPattern]:
        act = self.admin_site.admin_view(self.refetch_view)
        return [path("<path:pk>/refetch/", act, name="resources_resource_refetch"), *super().get_urls()]

    @method_decorator(require_POST)
    @method_decorator(csrf_protect)
    def refetch_view(self, request: HttpRequest, pk: str) -> HttpResponse:
        """The button of a URL's page."""
        row = Resource.objects.filter(pk=unquote(pk)).first()
        if row is None or not self.has_change_permission(request, row):
            raise Http404("No such URL.")
        self.refetch(request, Resource.objects.filter(pk=row.pk))
        return HttpResponseRedirect(reverse("admin:resources_resource_change", args=[row.pk]))

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds in words how it stands, and its file."""
        row: Resource | None = options.get("obj")
        if row is not None:
            now = datetime.now(UTC)
            blob = Blob.objects.filter(pk=row.blob_digest).first() if row.blob_digest else None
            context |= {
                "sentences": why(
                    state=row.state,
                    step=row.step,
                    failure=row.failure,
                    attempts=row.attempts,
                    due_at=row.due_at,
                    detail=row.detail,
                    now=now,
                ),
                "blob": blob,
                "size": words.size(blob.size) if blob else "",
                "show_save": False,
                "show_save_and_continue": False,
            }
        return super().render_change_form(request, context, *args, **options)
