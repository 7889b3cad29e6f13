"""Locks rows, and raises the versions of feeds and of combinations.

Rows are locked in one order: else two processes that change several rows could wait for each other. Versions are
microseconds since 1970 that only grow, also when clocks go back: pages of an older version are served while they
are rendered anew, unless they are withdrawn.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Greatest

from .models import ALL_SLUG, Category, Feed


def lock_rows(rows: QuerySet[Any]) -> list[int]:
    """Locks these rows until the transaction ends, and returns their ids. SQLite locks everything anyway."""
    return list(rows.select_for_update().order_by("pk").values_list("pk", flat=True))


def touch_combinations(feeds: Collection[int], now: datetime, *, withdrawn: bool = False) -> None:
    """Raises the versions of their combinations. Call it last in a transaction: all feeds wait for each other here."""
    links = Feed.categories.through._default_manager.filter(feed_id__in=feeds)
    own = set(links.values_list("category_id", flat=True))
    if not own:
        Category.objects.filter(slug=ALL_SLUG).update(**_version_fields(now, withdrawn=withdrawn))
        return
    _raise_versions(Q(pk__in=own | _parent_categories(own)) | Q(slug=ALL_SLUG), now, withdrawn=withdrawn)


def raise_categories(categories: Collection[int], now: datetime, *, withdrawn: bool = False) -> None:
    """Raises the versions of these categories and those above them, which something leaves if it is `withdrawn`.

    The combination of all feeds is locked first, as feeds do: a category may then be moved below an earlier one.
    """
    with transaction.atomic():
        lock_rows(Category.objects.filter(slug=ALL_SLUG))
        _raise_versions(Q(pk__in={*categories, *_parent_categories(categories)}), now, withdrawn=withdrawn)


def withdraw_pages(category: int, now: datetime) -> None:
    """Raises the version of this category alone, whose older pages are no longer served."""
    Category.objects.filter(pk=category).update(**_version_fields(now, withdrawn=True))


def _raise_versions(which: Q, now: datetime, *, withdrawn: bool) -> None:
    with transaction.atomic():
        locked = lock_rows(Category.objects.filter(which))
        Category.objects.filter(pk__in=locked).update(**_version_fields(now, withdrawn=withdrawn))


def next_version(now: datetime) -> Greatest:
    return Greatest(F("version") + 1, Value(round(now.timestamp() * 1_000_000)))


def _version_fields(now: datetime, *, withdrawn: bool) -> dict[str, Greatest]:
    """The fields of a combination. Both get the same number, computed from the old row."""
    names = ("version", "least_version") if withdrawn else ("version",)
    return dict.fromkeys(names, next_version(now))


def _parent_categories(categories: Collection[int]) -> set[int]:
    parents = dict(Category.objects.exclude(parent=None).values_list("pk", "parent_id"))
    found: set[int] = set()
    waiting = list(categories)
    while waiting:
        parent = parents.get(waiting.pop())
        if parent is not None and parent not in found:
            found.add(parent)
            waiting.append(parent)
    return found
