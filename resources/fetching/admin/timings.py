"""The admin of timings: a long list that is looked at and never counted."""

from functools import cached_property
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

from ..keeping.models import FetchTiming
from ..keeping.records import url_digest


class LookingAhead(Paginator):  # type: ignore[type-arg]  # Django's classes take no parameters
    """Knows of the pages up to this one, and whether there is another. Does not count the table."""

    page_number = 1

    @cached_property
    def count(self) -> int:
        rows = cast(QuerySet[FetchTiming], self.object_list)
        return rows.order_by()[: self.page_number * self.per_page + 1].count()


class UncountedList(ChangeList):
    """Says nothing of how many there are: it does not know."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.full_result_count = self.result_count


@admin.register(FetchTiming)
class TimingAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("began", "host", "kind", "lane", "outcome", "status", "first_byte", "took", "size", "egress")
    list_display_links = None
    list_filter = ("outcome", "kind", "lane")
    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
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

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return UncountedList

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **options: Any
    ) -> LookingAhead:
        paginator = LookingAhead(queryset, per_page, *args, **options)
        given = request.GET.get("p", "1")
        paginator.page_number = min(int(given), 10_000) if given.isascii() and given.isdigit() and int(given) else 1
        return paginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
