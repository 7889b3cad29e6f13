"""The admin of batches (progress, items, webhook), and the page of ingest efficiency over time."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from resources import charts, database, humanize
from resources.charts import Chart, IngestRow

from ..models import Batch, BatchItem, DedupeStep, Tally
from ..reports import batches
from .mirrored_files import ChoiceFilter, ExactSearchAdmin

ITEMS_PER_PAGE = 100


class FinishedFilter(ChoiceFilter):
    title, parameter_name = "finished", "finished"
    choices_by_value = {
        "yes": ("finished", Q(finished_at__isnull=False)),
        "no": ("open", Q(finished_at=None)),
        "untold": ("webhook not delivered", Q(finished_at__isnull=False, told_at=None) & ~Q(webhook="")),
    }


@admin.register(Batch)
class BatchAdmin(ExactSearchAdmin):
    list_display = ("short_id", "sender", "created", "total", "settled", "finished", "webhook_stands")
    list_filter = (FinishedFilter,)
    search_fields = ("sender",)
    search_help_text = "Search by sender or id (exact)."
    actions = ("call_again",)
    change_form_template = "admin/resources/batch/change_form.html"
    fields = ("id", "sender", "total", "created_at", "finished_at", "referer", "webhook", "webhook_stands")
    readonly_fields = fields

    @admin.display(description="ID")
    def short_id(self, batch: Batch) -> str:
        return str(batch.pk)[:8]

    @admin.display(description="reported")
    def created(self, batch: Batch) -> str:
        return humanize.format_ago(batch.created_at, datetime.now(UTC))

    @admin.display(description="settled")
    def settled(self, batch: Batch) -> str:
        if batch.finished_at or not batch.total:
            return "all"
        open_items = BatchItem.objects.filter(batch=batch, step="").count()
        return f"{(batch.total - open_items) / batch.total:.0%}"

    @admin.display(description="duration")
    def finished(self, batch: Batch) -> str:
        return humanize.format_span(batch.finished_at - batch.created_at) if batch.finished_at else "–"

    @admin.display(description="webhook status")
    def webhook_stands(self, batch: Batch) -> str:
        return batches.describe_webhook(batch, datetime.now(UTC)) or "–"

    def find_exactly(self, request: HttpRequest, queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
        try:
            return queryset.filter(pk=UUID(term))
        except ValueError:
            return queryset.filter(sender=term)

    @admin.action(description="Call webhook again", permissions=["change"])
    def call_again(self, request: HttpRequest, queryset: QuerySet[Batch]) -> None:
        again = queryset.exclude(webhook="").exclude(finished_at=None)
        number = database.update_in_order(again, told_at=None, calls=0, call_at=datetime.now(UTC), answer="")
        self.message_user(request, f"Webhooks to be called now: {number}.")

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        """Adds progress by step, and items page by page."""
        batch: Batch | None = options.get("obj")
        if batch is not None:
            context |= {"progress": _progress_rows(batch), **_items_context(request, batch)}
            context |= {"show_save": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, *args, **options)


def _progress_rows(batch: Batch) -> list[dict[str, Any]]:
    counts = batches.count_items(batch.pk)
    named = [(step.value, str(step.label)) for step in DedupeStep] + [(batches.OPEN_STEP, "open")]
    return [
        {"step": step or "open", "label": label, "number": counts[step], "percent": 100 * counts[step] / batch.total}
        for step, label in named
        if counts.get(step)
    ]


def _items_context(request: HttpRequest, batch: Batch) -> dict[str, Any]:
    step, after = request.GET.get("step", ""), request.GET.get("after", "")
    begins = int(after) if after.isascii() and after.isdigit() and len(after) < 10 else -1
    rows = BatchItem.objects.filter(batch=batch, position__gt=begins).order_by("position")
    if step:
        rows = rows.filter(step="" if step == "open" else step)
    items = list(rows[: ITEMS_PER_PAGE + 1])
    more = len(items) > ITEMS_PER_PAGE
    query = urlencode({"after": items[ITEMS_PER_PAGE - 1].position, **({"step": step} if step else {})}) if more else ""
    return {"items": items[:ITEMS_PER_PAGE], "chosen_step": step, "next_items": query}


DEFAULT_DAYS = 7


@admin.register(Tally)
class TallyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    """Shows a chart in the place of the list."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        given = request.GET.get("days", "")
        days = int(given) if given in map(str, charts.INGEST_SPANS) else DEFAULT_DAYS
        chart = load_ingest_chart(days, datetime.now(UTC))
        context = {
            **self.admin_site.each_context(request),
            "title": "Ingest efficiency",
            "opts": self.opts,
            "chart": chart,
            "days": days,
            "settled": charts.count_settled_steps(chart.rows),
            "spans": list(charts.INGEST_SPANS),
            "labels": {step.value: step.label for step in DedupeStep},
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/resources/tally/change_list.html", context)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def load_ingest_chart(days: int, now: datetime) -> Chart[IngestRow]:
    span = charts.INGEST_SPANS[days]
    since, until = charts.chart_period(now, timedelta(days=days), span)
    hours: dict[datetime, dict[str, int]] = {}
    for tally in Tally.objects.filter(hour__gte=since, hour__lt=until):
        hours.setdefault(tally.hour, {})[tally.step] = tally.number
    return charts.draw_ingest_chart(charts.gather_ingest_rows(hours, since, until, span), days)
