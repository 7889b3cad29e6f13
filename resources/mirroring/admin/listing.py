"""What the admin's lists of mirroring have in common: their look, how many rows an action is for, what a digest is."""

import re
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from resources.listing import UncountedAdmin

DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_CHOSEN = 200
"""Rows for one action: who clicked waits for it, and so do others on the same thread."""
TOO_MANY = (
    "More than {:,} are chosen: nothing was done. Choose up to {:,} of them; a search or a filter shows those that "
    "you mean."
)


class FewChosenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django's classes take no parameters
    """Actions are for `most_chosen` rows. Chosen for more, they do nothing, and the page says so."""

    most_chosen = MOST_CHOSEN

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Model], *args: Any, **options: Any
    ) -> HttpResponse | None:
        """What the action does, unless it is chosen for too many."""
        most = self.most_chosen
        if _number_chosen(request, queryset, most) <= most:
            return super().response_action(request, queryset, *args, **options)
        self.message_user(request, TOO_MANY.format(most, most), messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())


class MirroredAdmin(FewChosenAdmin, UncountedAdmin):
    change_list_template = "admin/resources/mirroring/uncounted.html"


def _number_chosen(request: HttpRequest, queryset: QuerySet[Model], most: int) -> int:
    """How many, or one more than the most."""
    if request.POST.get("select_across", "0") in {"", "0"}:
        return len(request.POST.getlist(ACTION_CHECKBOX_NAME))
    return queryset.order_by()[: most + 1].count()
