"""The admin of pre-warming: what each run did, and the requests that found content prepared by runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from resources.changelists import UncountedAdmin
from retry.errors import StoreUnavailable

from ..humanize import spell_duration
from ..tiles import tile_address
from ..traffic import prepared
from . import run_records
from .models import PrewarmRecord

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class KindYield:
    """The contents of a kind that runs of the last day prepared, and the requests that found such content."""

    kind: str
    contents: int
    found: int
    found_ever: int


def load_yields(now: datetime) -> list[KindYield] | None:
    """Returns the yields by kind; None if Redis does not answer. Raises DatabaseError."""
    kinds = [tile_address.TILE_KIND, *settings.PREWARM]
    contents = run_records.sum_prepared(now - timedelta(seconds=DAY_SECONDS))
    try:
        found = prepared.load_found(kinds, now.timestamp(), DAY_SECONDS)
    except StoreUnavailable:
        return None
    return [KindYield(kind, contents[kind], *map(round, found[kind])) for kind in kinds]


def explain_runs() -> Iterator[str]:
    """Yields sentences about the next runs."""
    if not settings.OBSERVE:
        yield "There are no runs: requests are not counted (OBSERVE=0), so nothing is known to be popular."
    elif not settings.PREWARM_SECONDS:
        yield "There are no runs (PREWARM_SECONDS=0)."
    else:
        yield f"A run every {spell_duration(settings.PREWARM_SECONDS)}"
        yield f"with {spell_duration(settings.PREWARM_BUDGET_SECONDS)} of work at most, while no other work waits."


@admin.register(PrewarmRecord)
class PrewarmRecordAdmin(UncountedAdmin):
    list_display = (
        *("began", "started_by", "considered", "fresh", "rare", "handed", "prepared", "failed", "left"),
        *("work_seconds", "busy", "is_settled"),
    )
    list_display_links = None
    change_list_template = "admin/resources/prewarmrecord/change_list.html"

    @admin.display(description="began (UTC)", ordering="began_at")
    def began(self, record: PrewarmRecord) -> str:
        return str(record)

    @admin.display(description="work", ordering="seconds")
    def work_seconds(self, record: PrewarmRecord) -> str:
        budget = "" if record.budget_seconds is None else f" of {record.budget_seconds:g}"
        return f"{record.seconds:.1f}{budget} s"

    @admin.display(description="ended", boolean=True)
    def is_settled(self, record: PrewarmRecord) -> bool:
        return record.settled_at is not None

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Shows the runs, below the requests that they have spared a wait."""
        context = {
            "title": "Pre-warming",
            "yields": load_yields(datetime.now(UTC)),
            "reason": " ".join(explain_runs()),
        }
        return super().changelist_view(request, {**(extra_context or {}), **context})
