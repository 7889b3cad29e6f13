"""The scan of subscriptions: which there are to be, and which are due. It waits for no answer."""

from datetime import datetime, timedelta
from functools import partial

from django.conf import settings

from resources import locks

from ..keeping import trust
from . import handing, wanting

LOCK, LOCK_SECONDS = "feeds:subscribing", 30
KEPT = timedelta(days=30)
"""How long an address that nothing is taken at any more answers that it is gone."""


def scan(now: datetime) -> int:
    """One scan: how many requests were handed over. Does nothing while another one is at it. Asks nobody without
    FEEDS_PUSH.

    Raises StoreUnavailable and DatabaseError.
    """
    return locks.alone(LOCK, LOCK_SECONDS, partial(_scan, now))


def _scan(now: datetime) -> int:
    wanting.end_unwanted(now)
    wanting.prune(now - KEPT)
    trust.tighten_untold(now)
    if not settings.FEEDS_PUSH:
        return 0
    wanting.begin_wanted(now)
    return handing.hand_over_due(now)
