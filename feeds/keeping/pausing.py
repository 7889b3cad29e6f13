"""Feeds that are in no combination until people say otherwise, paused or hidden, and such as go for good."""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from ..models import Feed
from . import locking, versions

PORTION = 20
"""Feeds that are deleted in one transaction: each may have thousands of entries."""


def pause(feed_ids: Collection[int], now: datetime) -> int:
    """These are not fetched from now on. How many were before. What is being fetched just now still comes."""
    return _set(feed_ids, now, paused=True)


def resume(feed_ids: Collection[int], now: datetime) -> int:
    """These are fetched again, when they are due: those whose time has passed at once. How many were paused."""
    return _set(feed_ids, now, paused=False)


def hide(feed_ids: Collection[int], now: datetime) -> int:
    """These go on being fetched, and are in nothing that is public. How many were before."""
    return _set(feed_ids, now, is_hidden=True)


def show(feed_ids: Collection[int], now: datetime) -> int:
    """What these say is public, whatever their servers are shown. How many were hidden."""
    return _set(feed_ids, now, is_hidden=False)


def remove(feed_ids: Collection[int], now: datetime) -> int:
    """Deletes feeds with all that is kept of them, some at a time. How many there were."""
    ids = sorted(feed_ids)
    return sum(_remove(ids[place : place + PORTION], now) for place in range(0, len(ids), PORTION))


def _remove(feed_ids: Collection[int], now: datetime) -> int:
    with transaction.atomic():
        locking.lock(Feed.objects.filter(pk__in=feed_ids))
        versions.withdraw(feed_ids, now)  # while they are still in their categories
        _, by_model = Feed.objects.filter(pk__in=feed_ids).delete()
    return by_model.get(Feed._meta.label, 0)


def _set(feed_ids: Collection[int], now: datetime, **field: bool) -> int:
    """Sets the one field."""
    ((name, value),) = field.items()
    with transaction.atomic():
        changed = locking.lock(Feed.objects.filter(pk__in=feed_ids, **{name: not value}))
        Feed.objects.filter(pk__in=changed).update(**field)
        (versions.withdraw if value else versions.touch)(changed, now)
    return len(changed)
