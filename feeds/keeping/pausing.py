"""Feeds that are neither fetched nor in any combination until people say otherwise, and such as go for good."""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction

from ..models import Feed
from . import versions


def pause(feed_ids: Collection[int], now: datetime) -> int:
    """These are not fetched from now on. How many were before. What is being fetched just now still comes."""
    return _set(feed_ids, True, now)


def resume(feed_ids: Collection[int], now: datetime) -> int:
    """These are fetched again, when they are due: those whose time has passed at once. How many were paused."""
    return _set(feed_ids, False, now)


def remove(feed_ids: Collection[int], now: datetime) -> int:
    """Deletes feeds with all that is kept of them. How many there were."""
    with transaction.atomic():
        versions.withdraw(feed_ids, now)  # while they are still in their categories
        _, by_model = Feed.objects.filter(pk__in=feed_ids).delete()
    return by_model.get(Feed._meta.label, 0)


def _set(feed_ids: Collection[int], paused: bool, now: datetime) -> int:
    with transaction.atomic():
        changed = list(Feed.objects.filter(pk__in=feed_ids, paused=not paused).values_list("pk", flat=True))
        Feed.objects.filter(pk__in=changed).update(paused=paused)
        (versions.withdraw if paused else versions.touch)(changed, now)
    return len(changed)
