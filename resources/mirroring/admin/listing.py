"""What the admin's lists of large tables have in common: they are not counted, and searched by what has an index."""

import re
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest

from resources.fetching.admin.timings import LookingAhead, UncountedList

DIGEST = re.compile(r"[0-9a-f]{64}")


class UncountedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    """A table that is read, whose rows are not made here."""

    list_per_page = 50
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_list_template = "admin/resources/mirroring/uncounted.html"

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

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
