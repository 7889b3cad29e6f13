"""Sets right what was written while the clock was ahead: else nothing would come of it until that hour comes again.

Versions need none of that: they only grow.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from resources.clocks import AHEAD

from ..models import Feed, Scan
from .storing import turn

AT_ONCE = 500
"""So many rows in one transaction."""

PASSED = ("flagged_at", "handed_over_at", "fetch_began_at", "checked_at", "pushed_at")
"""Moments that have passed, or pass within moments."""


def set_right(now: datetime) -> int:
    """Moves the moments of such feeds back to the present, in their order; how many feeds. Raises DatabaseError."""
    least = now + max(AHEAD, timedelta(seconds=2 * settings.FEEDS_PUSH_COOL_SECONDS))
    if not Scan.objects.filter(started_at__gt=least).exists() and not _flagged_ahead(least):
        return 0
    ahead = Q.create([(f"{name}__gt", least) for name in PASSED], Q.OR)
    ids = list(Feed.objects.filter(ahead).order_by("pk").values_list("pk", flat=True))
    for place in range(0, len(ids), AT_ONCE):
        _move_back(ids[place : place + AT_ONCE], now, least)
    Scan.objects.filter(started_at__gt=least).update(started_at=now)  # at last: as long as it is ahead there is more
    return len(ids)


def _flagged_ahead(least: datetime) -> bool:
    return Feed.objects.filter(paused=False, flagged_at__gt=least).exists()


def _move_back(ids: Sequence[int], now: datetime, least: datetime) -> None:
    with turn(), transaction.atomic():
        feeds = list(Feed.objects.select_for_update().filter(pk__in=ids).order_by("pk").only("next_check_at", *PASSED))
        for feed in feeds:
            moments = {name: at for name in PASSED if (at := getattr(feed, name)) is not None and at > least}
            if moments:
                by = max(moments.values()) - now
                feed.next_check_at = max(now, feed.next_check_at - by)
                for name, at in moments.items():
                    setattr(feed, name, at - by)
        Feed.objects.bulk_update(feeds, ("next_check_at", *PASSED))
