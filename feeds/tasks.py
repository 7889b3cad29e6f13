"""The Celery tasks of feeds. Each is an interface: it calls one function and logs an outage."""

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseError

from retry import worker
from retry.errors import StoreUnavailable

from . import credentials, followers, upkeep
from .feed_rows import SCAN_TASK
from .pages.render import prepare_page
from .scan import scanner
from .subscriptions import own_hub, renewals

PRUNE_SECONDS = 1.0

_log = logging.getLogger("tarry.tasks")


@shared_task(name=SCAN_TASK, ignore_result=True)
def scan_feeds() -> None:
    """Hands flagged and due feeds over to the fetchers. After an outage the next scan does it."""
    try:
        scanner.run_scan(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("feeds are not handed over", extra={"error": str(error)})


@shared_task(name="feeds.subscribe", ignore_result=True)
def subscribe_feeds() -> None:
    """Subscribes feeds that offer it, and renews subscriptions. After an outage the next pass does it."""
    try:
        renewals.scan_subscriptions(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("hubs are not asked", extra={"error": str(error)})


@shared_task(name="feeds.tell_hub", ignore_result=True)
def tell_hub() -> None:
    """Hands over the announcements to the site's own hub. After an outage the next pass does it."""
    try:
        own_hub.announce_changes(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("the hub is not told of changes", extra={"error": str(error)})


@shared_task(name="feeds.prune", ignore_result=True)
def prune_feeds() -> None:
    """Removes entries that left their feeds long ago, for a second at most, and old scans; recounts some followers."""
    now = datetime.now(UTC)
    try:
        upkeep.prune_old_entries(now, PRUNE_SECONDS)
        scanner.prune_scans(now - timedelta(days=settings.FETCH_TIMINGS_DAYS))
        followers.recount_subscribers_in_turn(now)
    except DatabaseError as error:
        _log.warning("entries could not be pruned", extra={"error": str(error)})


@shared_task(name="feeds.count_readers", ignore_result=True)
def count_readers() -> None:
    """Counts the readers of feeds. After an outage the next pass does it."""
    try:
        followers.count_readers(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("readers of feeds are not counted", extra={"error": str(error)})


@shared_task(name="feeds.render", ignore_result=True)
def render_feed_page(work_key: str, token: int, address: str) -> None:
    """Renders one page of a feed or of a combination. Does not raise if that fails."""
    worker.prepare(work_key, token, partial(prepare_page, address))


@shared_task(name="feeds.reseal", ignore_result=True)
def reseal_secrets() -> None:
    """Seals passwords and headers of an earlier SECRET_KEY with the current one."""
    try:
        credentials.reseal_all()
    except DatabaseError as error:
        _log.warning("secrets of feeds are not sealed anew", extra={"error": str(error)})


@shared_task(name="feeds.tell_of_failing", ignore_result=True)
def tell_of_failing() -> None:
    """Sends mail about feeds that have failed for long. While the mail server is away, the next pass does it."""
    try:
        upkeep.mail_failing_feeds(datetime.now(UTC))
    except (OSError, DatabaseError) as error:
        _log.warning("nobody is told of failing feeds", extra={"error": str(error)})
