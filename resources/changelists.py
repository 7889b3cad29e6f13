"""Base classes of admin lists: large tables are not counted, and actions are for few rows."""

import re
from functools import cached_property
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

MAX_PAGES = 10_000
MAX_PAGE_DIGITS = 100
"""Digits of a page's number: int() refuses thousands of them."""


class LookaheadPaginator(Paginator):  # type: ignore[type-arg]  # Django's classes take no parameters
    """A paginator that knows the pages up to the next one. Does not count the table."""

    page_number = 1

    @cached_property
    def count(self) -> int:
        rows = cast(QuerySet[Model], self.object_list)
        return rows.order_by()[: self.page_number * self.per_page + 1].count()


class UncountedChangeList(ChangeList):
    """A list that shows no total."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.full_result_count = self.result_count


class UncountedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The admin of a table read page by page, without adding or deleting rows. Search by indexed columns."""

    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/resources/uncounted.html"

    def get_changelist(self, request: HttpRequest, **options: Any) -> type[ChangeList]:
        return UncountedChangeList

    def get_paginator(
        self, request: HttpRequest, queryset: Any, per_page: int, *args: Any, **options: Any
    ) -> LookaheadPaginator:
        paginator = LookaheadPaginator(queryset, per_page, *args, **options)
        given = request.GET.get("p", "1")
        is_number = given.isascii() and given.isdigit() and len(given) < MAX_PAGE_DIGITS and int(given)
        paginator.page_number = min(int(given), MAX_PAGES) if is_number else 1
        return paginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


DIGEST_PATTERN = re.compile(r"[0-9a-f]{64}")
MAX_CHOSEN_ROWS = 200
"""Rows for one action: the admin waits for it, and so do other requests on the same thread."""
TOO_MANY_MESSAGE = (
    "More than {:,} rows are selected. Nothing was changed. Select up to {:,}, for example after a search or with a "
    "filter."
)


class FewChosenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    """Limits actions to `most_chosen` rows. With more rows chosen, an action does nothing, and the page says so."""

    most_chosen = MAX_CHOSEN_ROWS

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Model], *args: Any, **options: Any
    ) -> HttpResponse | None:
        """Runs the action, unless too many rows are chosen."""
        most = self.most_chosen
        if _count_chosen(request, queryset, most) <= most:
            return super().response_action(request, queryset, *args, **options)
        self.message_user(request, TOO_MANY_MESSAGE.format(most, most), messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())


class MirroredAdmin(FewChosenAdmin, UncountedAdmin):
    change_list_template = "admin/resources/mirror/uncounted.html"


def _count_chosen(request: HttpRequest, queryset: QuerySet[Model], most: int) -> int:
    if request.POST.get("select_across", "0") in {"", "0"}:
        return len(request.POST.getlist(ACTION_CHECKBOX_NAME))
    return queryset.order_by()[: most + 1].count()
