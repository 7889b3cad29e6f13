"""The admin of files: what each is, where it is, which URLs gave it; pinning, taking down."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from resources import words

from ..knowing import ordering
from ..knowing.models import Blob, Resource
from .listing import DIGEST, MirroredAdmin
from .taking_down import ask_or_take_down

THUMBNAIL = "/resources/{}/320x240.webp"
MOST_URLS = 50
KINDS = ("image", "video", "audio", "text", "application")


class KindFilter(admin.SimpleListFilter):
    """By the first half of the type, whose values need not be looked for."""

    title, parameter_name = "type", "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return [(kind, kind) for kind in KINDS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Blob]) -> QuerySet[Blob]:
        return queryset.filter(media_type__startswith=f"{self.value()}/") if self.value() in KINDS else queryset


class PlaceFilter(admin.SimpleListFilter):
    """Where the bytes are."""

    title, parameter_name = "place", "place"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return [("storage", "in the storage"), ("machine", "one machine"), ("down", "taken down")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Blob]) -> QuerySet[Blob]:
        chosen = {
            "storage": Q(uploaded_at__isnull=False, taken_down_at=None),
            "machine": Q(uploaded_at=None, taken_down_at=None),
            "down": Q(taken_down_at__isnull=False),
        }
        return queryset.filter(chosen.get(str(self.value()), Q()))


@admin.register(Blob)
class BlobAdmin(MirroredAdmin):
    list_display = ("preview", "short_digest", "kind", "listed_size", "stored", "place", "pinned")
    list_display_links = ("preview", "short_digest")
    list_filter = (KindFilter, PlaceFilter, "pinned")
    search_fields = ("digest",)
    search_help_text = "The digest of a file."
    actions = ("pin", "unpin", "take_down")
    change_form_template = "admin/resources/blob/change_form.html"
    fields = (
        *("digest", "media_type", "listed_size", "sides", "pinned", "stored_at", "uploaded_at", "holder", "name"),
        *("accessed_at", "taken_down_at"),
    )

    @admin.display(description="preview")
    def preview(self, blob: Blob) -> SafeString | str:
        if not blob.is_image or blob.taken_down_at:
            return "–"
        return format_html('<img class="thumb" loading="lazy" alt="" src="{}">', THUMBNAIL.format(blob.digest))

    @admin.display(description="digest")
    def short_digest(self, blob: Blob) -> SafeString:
        return format_html('<code title="{}">{}</code>', blob.digest, blob.digest[:12])

    @admin.display(description="type")
    def kind(self, blob: Blob) -> str:
        return f"{blob.media_type}, {self.sides(blob)}" if blob.is_image else blob.media_type

    @admin.display(description="size")
    def listed_size(self, blob: Blob) -> str:
        return words.size(blob.size)

    @admin.display(description="pixels")
    def sides(self, blob: Blob) -> str:
        return f"{blob.width} × {blob.height}" if blob.is_image else "–"

    @admin.display(description="stored")
    def stored(self, blob: Blob) -> str:
        return words.ago(blob.stored_at, datetime.now(UTC))

    @admin.display(description="place")
    def place(self, blob: Blob) -> str:
        if blob.taken_down_at:
            return "taken down"
        return "storage" if blob.uploaded_at else "one machine"

    def get_readonly_fields(self, request: HttpRequest, obj: Blob | None = None) -> list[str]:
        return [name for name in self.fields if name != "pinned" or (obj is not None and obj.taken_down_at)]

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        return ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Blob], search_term: str
    ) -> tuple[QuerySet[Blob], bool]:
        term = search_term.strip().lower()
        if not term:
            return queryset, False
        return (queryset.filter(digest=term) if DIGEST.fullmatch(term) else queryset.none()), False

    def save_model(self, request: HttpRequest, obj: Blob, form: Any, change: bool) -> None:
        """Saves no more than what can be changed here: the rest may have changed meanwhile."""
        obj.save(update_fields=["pinned"])

    @admin.action(description="Pin: never prune", permissions=["change"])
    def pin(self, request: HttpRequest, queryset: QuerySet[Blob]) -> None:
        self.message_user(request, f"Pinned: {ordering.update(queryset.filter(taken_down_at=None), pinned=True)}.")

    @admin.action(description="Unpin", permissions=["change"])
    def unpin(self, request: HttpRequest, queryset: QuerySet[Blob]) -> None:
        self.message_user(request, f"No longer pinned: {ordering.update(queryset, pinned=False)}.")

    @admin.action(description="Take down", permissions=["change"])
    def take_down(self, request: HttpRequest, queryset: QuerySet[Blob]) -> TemplateResponse | None:
        return ask_or_take_down(self, request, queryset, [blob.pk for blob in queryset])

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds the preview and the URLs."""
        blob: Blob | None = options.get("obj")
        if blob is not None:
            urls = list(Resource.objects.filter(blob_digest=blob.pk).order_by("-fetched_at")[: MOST_URLS + 1])
            context |= {
                "blob": blob,
                "size": words.size(blob.size),
                "urls": urls[:MOST_URLS],
                "more_urls": len(urls) > MOST_URLS,
            }
        return super().render_change_form(request, context, *args, **options)
