"""Versions of what feeds give: microseconds since 1970 that only grow, also when clocks go back."""

from collections.abc import Collection
from datetime import datetime

from django.db.models import F, Value
from django.db.models.functions import Greatest

from ..models import ALL, Category, Feed


def touch(feeds: Collection[int], now: datetime) -> None:
    """Raises the versions of these feeds, and of every combination they are in."""
    if not feeds:
        return
    later = Greatest(F("version") + 1, Value(round(now.timestamp() * 1_000_000)))
    Feed.objects.filter(pk__in=feeds).update(version=later)
    own = set(Category.objects.filter(feeds__in=feeds).values_list("pk", flat=True))
    Category.objects.filter(pk__in=own | _around(own)).update(version=later)
    Category.objects.filter(slug=ALL).update(version=later)


def _around(categories: Collection[int]) -> set[int]:
    """The categories that these stand in, up to the outermost."""
    parents = dict(Category.objects.exclude(parent=None).values_list("pk", "parent_id"))
    found: set[int] = set()
    waiting = list(categories)
    while waiting:
        parent = parents.get(waiting.pop())
        if parent is not None and parent not in found:
            found.add(parent)
            waiting.append(parent)
    return found
