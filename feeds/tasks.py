"""Celery tasks of feeds."""

import logging
from datetime import UTC, datetime, timedelta
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseError

from retry import preparing
from retry.errors import StoreUnavailable

from .announcing import scanning as announcing
from .composing.pages import prepared
from .gathering import scanning
from .keeping import alerting, credentials, following, pruning, readers, scans
from .keeping.flagging import SCAN
from .subscribing import scanning as subscribing

PRUNE_SECONDS = 1.0

_log = logging.getLogger("tarry.tasks")


@shared_task(name=SCAN, ignore_result=True)
def scan() -> None:
    """Hands feeds that are flagged or due over to the fetchers. The next scan does it in an outage."""
    try:
        scanning.scan(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("feeds are not handed over", extra={"error": str(error)})


@shared_task(name="feeds.subscribe", ignore_result=True)
def subscribe() -> None:
    """Subscribes feeds that offer it, and renews what is about to expire. The next pass does it in an outage."""
    try:
        subscribing.scan(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("hubs are not asked", extra={"error": str(error)})


@shared_task(name="feeds.tell_hub", ignore_result=True)
def tell_hub() -> None:
    """Has the site's own hub told of what has changed. The next pass does it in an outage."""
    try:
        announcing.scan(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("the hub is not told of changes", extra={"error": str(error)})


@shared_task(name="feeds.prune", ignore_result=True)
def prune() -> None:
    """Removes entries that left their feeds long ago, as many as can be removed in a second, and old scans.

    Then some feeds' followers are counted anew.
    """
    now = datetime.now(UTC)
    try:
        pruning.prune_old(now, PRUNE_SECONDS)
        scans.prune(now - timedelta(days=settings.FETCH_TIMINGS_DAYS))
        following.recount_in_turn(now)
    except DatabaseError as error:
        _log.warning("entries could not be pruned", extra={"error": str(error)})


@shared_task(name="feeds.count_readers", ignore_result=True)
def count_readers() -> None:
    """Counts who reads feeds. The next pass does it in an outage."""
    try:
        readers.count(datetime.now(UTC))
    except (StoreUnavailable, DatabaseError) as error:
        _log.warning("readers of feeds are not counted", extra={"error": str(error)})


@shared_task(name="feeds.render", ignore_result=True)
def render(work_key: str, token: int, address: str) -> None:
    """Renders one page of a feed or of a combination. Does not raise when that fails."""
    preparing.prepare(work_key, token, partial(prepared, address))


@shared_task(name="feeds.reseal", ignore_result=True)
def reseal() -> None:
    """Seals passwords and headers that an earlier SECRET_KEY has sealed with the one of today."""
    try:
        credentials.reseal()
    except DatabaseError as error:
        _log.warning("secrets of feeds are not sealed anew", extra={"error": str(error)})


@shared_task(name="feeds.tell_of_failing", ignore_result=True)
def tell_of_failing() -> None:
    """Sends mail about feeds that have been failing for long. The next pass does it when the mail server is away."""
    try:
        alerting.tell_of_failing(datetime.now(UTC))
    except (OSError, DatabaseError) as error:
        _log.warning("nobody is told of failing feeds", extra={"error": str(error)})
