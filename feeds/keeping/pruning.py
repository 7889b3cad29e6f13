"""Removes entries by their number in each feed and by age. Only such as have left their feed's document.

One that is still in it would come as new again with the next fetch.
"""

import time
from datetime import datetime, timedelta

from django.conf import settings

from ..models import Entry

SLICE = 500


def prune_feed(feed_id: int, kept: int) -> int:
    """Removes the oldest of a feed that has `kept` entries, as far as these are too many. How many went."""
    surplus = kept - int(settings.FEEDS_KEEP_ENTRIES)
    if surplus <= 0:
        return 0
    oldest = Entry.objects.filter(feed_id=feed_id, left_at__isnull=False).order_by("happened_at", "pk")
    return Entry.objects.filter(pk__in=list(oldest.values_list("pk", flat=True)[:surplus])).delete()[0]


def prune_old(now: datetime, seconds: float) -> int:
    """Removes what left its feed FEEDS_KEEP_DAYS ago, slice by slice, for about so long. How many went.

    Raises DatabaseError.
    """
    if not settings.FEEDS_KEEP_DAYS:
        return 0
    before, until, removed = now - timedelta(days=settings.FEEDS_KEEP_DAYS), time.monotonic() + seconds, 0
    while True:
        rows = Entry.objects.filter(left_at__lt=before).order_by("left_at").values_list("pk", flat=True)[:SLICE]
        gone = Entry.objects.filter(pk__in=list(rows)).delete()[0]
        removed += gone
        if gone < SLICE or time.monotonic() >= until:
            return removed
