"""The admin of timings: a long list that is looked at and never counted."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from resources.listing import UncountedAdmin

from ..keeping.models import FetchTiming
from ..keeping.records import url_digest


@admin.register(FetchTiming)
class TimingAdmin(UncountedAdmin):
    list_display = ("began", "host", "kind", "lane", "outcome", "status", "first_byte", "took", "size", "egress")
    list_display_links = None
    list_filter = ("outcome", "kind", "lane")
    search_fields = ("scope",)
    search_help_text = "A domain, exactly, or a whole address (https://…)."

    @admin.display(description="began (UTC)", ordering="started_at")
    def began(self, timing: FetchTiming) -> str:
        return f"{timing.started_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="first byte")
    def first_byte(self, timing: FetchTiming) -> str:
        return "–" if timing.head_seconds is None else f"{timing.head_seconds:.3f}\N{NO-BREAK SPACE}s"

    @admin.display(description="in all")
    def took(self, timing: FetchTiming) -> str:
        return f"{timing.seconds:.3f}\N{NO-BREAK SPACE}s"

    @admin.display(description="bytes")
    def size(self, timing: FetchTiming) -> str:
        return f"{timing.wire_bytes:,}"

    def get_sortable_by(self, request: HttpRequest) -> tuple[str, ...]:
        """By time alone: by anything else the whole table would have to be sorted."""
        return ("began",)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[FetchTiming], search_term: str
    ) -> tuple[QuerySet[FetchTiming], bool]:
        """By what there is an index for."""
        term = search_term.strip()
        if not term:
            return queryset, False
        wanted = {"url_digest": url_digest(term)} if "://" in term else {"scope": term.lower()}
        return queryset.filter(**wanted), False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
