"""Versions of what feeds give: microseconds since 1970 that only grow, also when clocks go back.

What was rendered of an older version is served while it is rendered anew, but for what is withdrawn.
"""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Greatest

from ..models import ALL, Category, Feed
from . import locking


def touch(feeds: Collection[int], now: datetime) -> None:
    """Raises the versions of these feeds, and of every combination they are in."""
    if not feeds:
        return
    Feed.objects.filter(pk__in=feeds).update(version=raised(now))
    touch_combinations(feeds, now)


def withdraw(feeds: Collection[int], now: datetime) -> None:
    """The same where these leave every combination they are in: nobody is shown what was rendered with them."""
    if not feeds:
        return
    Feed.objects.filter(pk__in=feeds).update(version=raised(now))
    touch_combinations(feeds, now, withdrawn=True)


def touch_combinations(feeds: Collection[int], now: datetime, *, withdrawn: bool = False) -> None:
    """Those of the combinations alone. The last thing in a transaction: all feeds wait for each other here."""
    links = Feed.categories.through._default_manager.filter(feed_id__in=feeds)
    own = set(links.values_list("category_id", flat=True))
    fields = _raised(now, withdrawn=withdrawn)
    if not own:
        Category.objects.filter(slug=ALL).update(**fields)
        return
    with transaction.atomic():
        locked = locking.lock(Category.objects.filter(Q(pk__in=own | _around(own)) | Q(slug=ALL)))
        Category.objects.filter(pk__in=locked).update(**fields)


def touch_categories(categories: Collection[int], now: datetime, *, withdrawn: bool = False) -> None:
    """Raises the versions of these, and of those that they stand in, which they leave if they are `withdrawn`."""
    with transaction.atomic():
        locked = locking.lock(Category.objects.filter(pk__in={*categories, *_around(categories)}))
        Category.objects.filter(pk__in=locked).update(**_raised(now, withdrawn=withdrawn))


def raised(now: datetime) -> Greatest:
    """The next version of a row."""
    return Greatest(F("version") + 1, Value(round(now.timestamp() * 1_000_000)))


def _raised(now: datetime, *, withdrawn: bool) -> dict[str, Greatest]:
    """The fields of a combination. Both are the same number: by the row as it was."""
    names = ("version", "least_version") if withdrawn else ("version",)
    return dict.fromkeys(names, raised(now))


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
