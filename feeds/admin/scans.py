"""The admin of scans: what each took, and how long that took against the least that it could."""

from datetime import UTC, datetime
from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from resources import words
from resources.listing import UncountedAdmin

from ..models import Scan


@admin.register(Scan)
class ScanAdmin(UncountedAdmin):
    list_display = ("began", "feeds", "hosts", "least", "took", "bound", "ratio")
    list_display_links = None
    ordering = ("-started_at",)

    @admin.display(description="began (UTC)", ordering="started_at")
    def began(self, scan: Scan) -> str:
        return f"{scan.started_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="expected, at the least")
    def least(self, scan: Scan) -> str:
        return _seconds(scan.expected_seconds)

    @admin.display(description="took")
    def took(self, scan: Scan) -> str:
        if scan.makespan_seconds is None and scan.ended_at is not None:
            return "not known: not all came back"
        if scan.makespan_seconds is None:
            return f"goes on, begun {words.ago(scan.started_at, datetime.now(UTC))}"
        return _seconds(scan.makespan_seconds)

    @admin.display(description="lower bound")
    def bound(self, scan: Scan) -> str:
        return "–" if scan.bound_seconds is None else _seconds(scan.bound_seconds)

    @admin.display(description="took ÷ bound")
    def ratio(self, scan: Scan) -> str:
        if not scan.bound_seconds or scan.makespan_seconds is None:
            return "–"
        return f"{scan.makespan_seconds / scan.bound_seconds:.2f}"

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        return ("began",)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def _seconds(seconds: float) -> str:
    return f"{seconds:,.1f}\N{NO-BREAK SPACE}s"
