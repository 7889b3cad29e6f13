"""A page of the admin: how much each download gives, and what spares downloads, over time."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from resources import charts

from ..knowing.models import Step, Tally
from . import charting
from .charting import Chart

USUAL_DAYS = 7


@admin.register(Tally)
class TallyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    """The list is a chart."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        given = request.GET.get("days", "")
        days = int(given) if given in map(str, charting.SPANS) else USUAL_DAYS
        context = {
            **self.admin_site.each_context(request),
            "title": "Ingest efficiency",
            "opts": self.opts,
            "chart": found(days, datetime.now(UTC)),
            "spans": list(charting.SPANS),
            "labels": {step.value: step.label for step in Step},
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/resources/tally/change_list.html", context)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def found(days: int, now: datetime) -> Chart:
    """The chart of so many days until now."""
    span = charting.SPANS[days]
    since, until = charts.reach(now, timedelta(days=days), span)
    hours: dict[datetime, dict[str, int]] = {}
    for tally in Tally.objects.filter(hour__gte=since, hour__lt=until):
        hours.setdefault(tally.hour, {})[tally.step] = tally.number
    return charting.chart(charting.gathered(hours, since, until, span), days)
