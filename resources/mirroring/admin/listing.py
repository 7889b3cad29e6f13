"""What the admin's lists of mirrored URLs and files have in common: how they look, and what a digest is."""

import re
from typing import Any

from django.contrib import messages
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


class MirroredAdmin(UncountedAdmin):
    change_list_template = "admin/resources/mirroring/uncounted.html"

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Model], *args: Any, **options: Any
    ) -> HttpResponse | None:
        """What the action does, unless it is chosen for too many."""
        if _number_chosen(request, queryset) <= MOST_CHOSEN:
            return super().response_action(request, queryset, *args, **options)
        self.message_user(request, TOO_MANY.format(MOST_CHOSEN, MOST_CHOSEN), messages.ERROR)
        return HttpResponseRedirect(request.get_full_path())


def _number_chosen(request: HttpRequest, queryset: QuerySet[Model]) -> int:
    """How many, or one more than may be."""
    if request.POST.get("select_across", "0") in {"", "0"}:
        return len(request.POST.getlist(ACTION_CHECKBOX_NAME))
    return queryset.order_by()[: MOST_CHOSEN + 1].count()
