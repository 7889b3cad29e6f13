"""The admin of lists that were reported: how far each is, its items, its webhook."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from resources import words

from ..knowing import ordering
from ..knowing.models import Batch, BatchItem, Step
from ..reporting import progress
from .listing import MirroredAdmin

ITEMS = 100


class FinishedFilter(admin.SimpleListFilter):
    title, parameter_name = "finished", "finished"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", "finished"), ("no", "open"), ("untold", "webhook not told")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Batch]) -> QuerySet[Batch]:
        match self.value():
            case "yes":
                return queryset.exclude(finished_at=None)
            case "no":
                return queryset.filter(finished_at=None)
            case "untold":
                return queryset.filter(told_at=None).exclude(webhook="").exclude(finished_at=None)
        return queryset


@admin.register(Batch)
class BatchAdmin(MirroredAdmin):
    list_display = ("short_id", "sender", "created", "total", "settled", "finished", "webhook_stands")
    list_filter = (FinishedFilter,)
    search_fields = ("sender",)
    search_help_text = "Who has sent it, or its id."
    actions = ("call_again",)
    change_form_template = "admin/resources/batch/change_form.html"
    fields = ("id", "sender", "total", "created_at", "finished_at", "referer", "webhook", "webhook_stands")
    readonly_fields = fields

    @admin.display(description="list")
    def short_id(self, batch: Batch) -> str:
        return str(batch.pk)[:8]

    @admin.display(description="reported")
    def created(self, batch: Batch) -> str:
        return words.ago(batch.created_at, datetime.now(UTC))

    @admin.display(description="settled")
    def settled(self, batch: Batch) -> str:
        if batch.finished_at or not batch.total:
            return "all"
        open_items = BatchItem.objects.filter(batch=batch, step="").count()
        return f"{(batch.total - open_items) / batch.total:.0%}"

    @admin.display(description="took")
    def finished(self, batch: Batch) -> str:
        return words.span(batch.finished_at - batch.created_at) if batch.finished_at else "–"

    @admin.display(description="its call")
    def webhook_stands(self, batch: Batch) -> str:
        return progress.webhook_stands(batch, datetime.now(UTC)) or "–"

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        return ()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Batch], search_term: str
    ) -> tuple[QuerySet[Batch], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        try:
            return queryset.filter(pk=UUID(term)), False
        except ValueError:
            return queryset.filter(sender=term), False

    @admin.action(description="Call the webhook (again)", permissions=["change"])
    def call_again(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        again = queryset.exclude(webhook="").exclude(finished_at=None)
        number = ordering.update(again, told_at=None, calls=0, call_at=datetime.now(UTC), answer="")
        self.message_user(request, f"Called within seconds: {number}.")

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds progress by step, and items page by page."""
        batch: Batch | None = options.get("obj")
        if batch is not None:
            context |= {"progress": _progress(batch), **_items(request, batch)}
            context |= {"show_save": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, *args, **options)


def _progress(batch: Batch) -> list[dict[str, Any]]:
    counts = progress.counts_of(batch.pk)
    named = [(step.value, str(step.label)) for step in Step] + [(progress.OPEN, "open")]
    return [
        {"step": step or "open", "label": label, "number": counts[step], "percent": 100 * counts[step] / batch.total}
        for step, label in named
        if counts.get(step)
    ]


def _items(request: HttpRequest, batch: Batch) -> dict[str, Any]:
    step, after = request.GET.get("step", ""), request.GET.get("after", "")
    begins = int(after) if after.isascii() and after.isdigit() and len(after) < 10 else -1
    rows = BatchItem.objects.filter(batch=batch, position__gt=begins).order_by("position")
    if step:
        rows = rows.filter(step="" if step == "open" else step)
    items = list(rows[: ITEMS + 1])
    more = len(items) > ITEMS
    query = urlencode({"after": items[ITEMS - 1].position, **({"step": step} if step else {})}) if more else ""
    return {"items": items[:ITEMS], "chosen_step": step, "next_items": query}
