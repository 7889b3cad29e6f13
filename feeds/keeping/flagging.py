"""Feeds that are said to have changed: flagged, and a scan is asked for at once."""

import logging
from collections.abc import Collection
from datetime import datetime

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError
from redis.exceptions import ConnectionError as NotRunning
from redis.exceptions import RedisError

from resources import locks
from retry import connections

from ..models import Feed
from . import locking

SCAN = "feeds.scan"
ASKED, ASKED_SECONDS = "feeds:scan-asked", 10
"""Stands in `state` from when a scan is asked for until it begins: whoever flags meanwhile need not ask."""

_log = logging.getLogger("tarry.feeds")


def flag(feeds: Collection[int], now: datetime) -> int:
    """Has these feeds fetched before the rest, as soon as can be; how many there are. Raises DatabaseError.

    Paused ones are not fetched. In a transaction the scan is asked for at its end: it would not see them before.
    """
    with transaction.atomic():
        rows = Feed.objects.filter(pk__in=feeds, paused=False)
        if len(feeds) > 1:
            rows = Feed.objects.filter(pk__in=locking.lock(rows))
        flagged = rows.update(flagged_at=now)
        if flagged:
            transaction.on_commit(ask_for_scan)
    return flagged


def ask_for_scan() -> None:
    """Has a scan begin soon. Where Redis is away, the next one by the clock does: nobody waits for it."""
    try:
        if connections.client("state").set(ASKED, 1, nx=True, ex=ASKED_SECONDS):
            _publish()
    except NotRunning:
        _log.debug("no scan is asked for: the site is not running")
    except (RedisError, OperationalError, OSError) as error:
        _log.warning("a scan could not be asked for", extra={"error": str(error)})


def begin_scan() -> None:
    """Who flags from now on asks for another scan. Raises StoreUnavailable."""
    with locks.state() as client:
        client.delete(ASKED)


def go_on() -> None:
    """Publishes again what was asked for during a scan: it may have come, and gone, while that went on.

    Raises StoreUnavailable.
    """
    with locks.state() as client:
        is_asked = client.exists(ASKED)
    if is_asked:
        try:
            _publish()
        except (OperationalError, OSError) as error:
            _log.warning("a scan could not be asked for", extra={"error": str(error)})


def _publish() -> None:
    current_app.send_task(SCAN, queue="work", retry=False, ignore_result=True)
