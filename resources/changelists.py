"""What the admin's lists of large tables have in common: they are not counted. Says nothing of one table's columns."""

from functools import cached_property
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest

MOST_PAGES = 10_000
MOST_DIGITS = 100
"""Of a page's number: int() refuses thousands of them."""


class LookingAhead(Paginator):  # type: ignore[type-arg]  # Django's classes take no parameters
    """Knows of the pages up to this one, and whether there is another. Does not count the table."""

    page_number = 1

    @cached_property
    def count(self) -> int:
        rows = cast(QuerySet[Model], self.object_list)
        return rows.order_by()[: self.page_number * self.per_page + 1].count()


class UncountedList(ChangeList):
    """Says nothing of how many there are: it does not know."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.full_result_count = self.result_count


class UncountedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A table that is read page by page, whose rows are not made here. Search by what has an index."""

    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/resources/uncounted.html"

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return UncountedList

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **options: Any
    ) -> LookingAhead:
        paginator = LookingAhead(queryset, per_page, *args, **options)
        given = request.GET.get("p", "1")
        is_number = given.isascii() and given.isdigit() and len(given) < MOST_DIGITS and int(given)
        paginator.page_number = min(int(given), MOST_PAGES) if is_number else 1
        return paginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
