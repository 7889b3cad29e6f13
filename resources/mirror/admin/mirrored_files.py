"""The admin of files: type, place and URLs of each; pinning, taking down.

Files are taken down after a page that asks for confirmation: it cannot be undone.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from resources import database, humanize
from resources.changelists import MirroredAdmin

from ..errors import StorageError
from ..models import Blob, Resource
from ..storage import takedown

MAX_TAKEDOWN_SECONDS = 5.0
"""The time for the URLs of all these files: a worker does the rest."""
TAKEN_DOWN_MESSAGE = "Taken down: {}. They are no longer served and will not be stored again."
STILL_SERVED_MESSAGE = (
    "Links to these files could not be removed, so they may still be served: {}. Take them down again."
)


class ChoiceFilter(admin.SimpleListFilter):
    """A filter with a label and a condition for each value."""

    choices_by_value: Mapping[str, tuple[str, Q]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(value, label) for value, (label, _) in self.choices_by_value.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        _, condition = self.choices_by_value.get(str(self.value()), ("", Q()))
        return queryset.filter(condition)


class ExactSearchAdmin(MirroredAdmin):
    """The admin of a large table: never sorted as a whole, and searched by columns that have an index."""

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        return ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return self.find_exactly(request, queryset, term) if term else queryset, False

    def find_exactly(self, request: HttpRequest, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        raise NotImplementedError


def ask_or_take_down(
    model_admin: admin.ModelAdmin,  # type: ignore[type-arg]
    request: HttpRequest,
    queryset: QuerySet[Resource] | QuerySet[Blob],
    digests: Sequence[str],
) -> TemplateResponse | None:
    """Returns the page that asks; None once the files are taken down."""
    if not digests:
        model_admin.message_user(request, "None of the selected URLs has a file.", messages.WARNING)
        return None
    if request.POST.get("sure"):
        done, served = _take_down_blobs(digests)
        for blob in Blob.objects.filter(digest__in=done + served):
            model_admin.log_change(request, blob, "Taken down.")
        model_admin.message_user(request, TAKEN_DOWN_MESSAGE.format(len(done)))
        if served:
            model_admin.message_user(request, STILL_SERVED_MESSAGE.format(", ".join(served)), messages.ERROR)
        return None
    blobs = Blob.objects.filter(digest__in=digests)
    context = {
        **model_admin.admin_site.each_context(request),
        "title": "Take files down?",
        "opts": model_admin.opts,
        "files": [(blob, humanize.format_size(blob.size)) for blob in blobs],
        "chosen": [row.pk for row in queryset],
        "urls": Resource.objects.filter(blob_digest__in=digests).count(),
    }
    return TemplateResponse(request, "admin/resources/mirror/take_down.html", context)


def _take_down_blobs(digests: Sequence[str]) -> tuple[list[str], list[str]]:
    """Takes files down. Returns the digests taken down, and those that nginx may still serve."""
    until = time.monotonic() + MAX_TAKEDOWN_SECONDS
    done: list[str] = []
    served: list[str] = []
    for digest in digests:
        try:
            seconds = max(0.0, min(until - time.monotonic(), takedown.IMMEDIATE_SECONDS))
            if takedown.take_down_blob(digest, seconds):
                done.append(digest)
        except StorageError:
            served.append(digest)
    return done, served


PREVIEW_ADDRESS = "/resources/{}/320x240.webp"
MAX_URLS_SHOWN = 50
MEDIA_KINDS = ("image", "video", "audio", "text", "application")


class KindFilter(ChoiceFilter):
    """Filters by the first half of the type, whose values need no query."""

    title, parameter_name = "type", "kind"
    choices_by_value = {kind: (kind, Q(media_type__startswith=f"{kind}/")) for kind in MEDIA_KINDS}


class PlaceFilter(ChoiceFilter):
    title, parameter_name = "place", "place"
    choices_by_value = {
        "storage": ("in the storage", Q(uploaded_at__isnull=False, taken_down_at=None)),
        "machine": ("one machine", Q(uploaded_at=None, taken_down_at=None)),
        "down": ("taken down", Q(taken_down_at__isnull=False)),
    }


@admin.register(Blob)
class BlobAdmin(ExactSearchAdmin):
    list_display = ("preview", "short_digest", "kind", "listed_size", "stored", "place", "pinned")
    list_display_links = ("preview", "short_digest")
    list_filter = (KindFilter, PlaceFilter, "pinned")
    search_fields = ("digest",)
    search_help_text = "Search by digest (exact)."
    actions = ("pin", "unpin", "take_down")
    change_form_template = "admin/resources/blob/change_form.html"
    fields = (
        *("digest", "media_type", "listed_size", "sides", "pinned", "stored_at", "uploaded_at", "holder", "name"),
        *("accessed_at", "taken_down_at"),
    )

    def get_form(self, request: HttpRequest, obj: Blob | None = None, change: bool = False, **options: Any) -> Any:
        return super().get_form(request, obj, change, **{**options, "labels": {"holder": "Machine before the upload"}})

    @admin.display(description="preview")
    def preview(self, blob: Blob) -> SafeString | str:
        if not blob.is_image or blob.taken_down_at:
            return "–"
        return format_html('<img class="thumb" loading="lazy" alt="" src="{}">', PREVIEW_ADDRESS.format(blob.digest))

    @admin.display(description="digest")
    def short_digest(self, blob: Blob) -> SafeString:
        return format_html('<code title="{}">{}</code>', blob.digest, blob.digest[:12])

    @admin.display(description="type")
    def kind(self, blob: Blob) -> str:
        return f"{blob.media_type}, {self.sides(blob)}" if blob.is_image else blob.media_type

    @admin.display(description="size")
    def listed_size(self, blob: Blob) -> str:
        return humanize.format_size(blob.size)

    @admin.display(description="pixels")
    def sides(self, blob: Blob) -> str:
        return f"{blob.width} × {blob.height}" if blob.is_image else "–"

    @admin.display(description="stored")
    def stored(self, blob: Blob) -> str:
        return humanize.format_ago(blob.stored_at, datetime.now(UTC))

    @admin.display(description="place")
    def place(self, blob: Blob) -> str:
        if blob.taken_down_at:
            return "taken down"
        return "storage" if blob.uploaded_at else "one machine"

    def get_readonly_fields(self, request: HttpRequest, obj: Blob | None = None) -> list[str]:
        return [name for name in self.fields if name != "pinned" or (obj is not None and obj.taken_down_at)]

    def find_exactly(self, request: HttpRequest, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        return queryset.filter(digest=term.lower())

    def save_model(self, request: HttpRequest, obj: Blob, form: Any, change: bool) -> None:
        """Saves only the field that can be changed here: the others may have changed meanwhile."""
        obj.save(update_fields=["pinned"])

    @admin.action(description="Pin (never prune)", permissions=["change"])
    def pin(self, request: HttpRequest, queryset: QuerySet[Blob]) -> None:
        number = database.update_in_order(queryset.filter(taken_down_at=None), pinned=True)
        self.message_user(request, f"Pinned: {number}.")

    @admin.action(description="Unpin", permissions=["change"])
    def unpin(self, request: HttpRequest, queryset: QuerySet[Blob]) -> None:
        self.message_user(request, f"No longer pinned: {database.update_in_order(queryset, pinned=False)}.")

    @admin.action(description="Take down files", permissions=["change"])
    def take_down(self, request: HttpRequest, queryset: QuerySet[Blob]) -> TemplateResponse | None:
        return ask_or_take_down(self, request, queryset, [blob.pk for blob in queryset])

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds the preview and the URLs."""
        blob: Blob | None = options.get("obj")
        if blob is not None:
            urls = list(Resource.objects.filter(blob_digest=blob.pk).order_by("-fetched_at")[: MAX_URLS_SHOWN + 1])
            context |= {
                "blob": blob,
                "size": humanize.format_size(blob.size),
                "urls": urls[:MAX_URLS_SHOWN],
                "more_urls": len(urls) > MAX_URLS_SHOWN,
            }
        return super().render_change_form(request, context, *args, **options)
