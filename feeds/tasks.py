"""The Celery tasks of feeds. Each is an interface: it calls one function and logs an outage."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from celery import shared_task
from django.conf import settings
from django.db import Error as DatabaseError

from retry import worker
from retry.errors import StoreUnavailable

from . import change_calls, credentials, filters, followers, stories, upkeep
from .changes import numbers
from .feed_rows import SCAN_TASK
from .hub import distribution
from .pages.render import prepare_page
from .scan import scanner, supplement_task
from .subscriptions import own_hub, renewals

PRUNE_SECONDS = 1.0
NUMBER_SECONDS = 5.0

_log = logging.getLogger("tarry.tasks")


@contextmanager
def _outage_logged(message: str, *more: type[Exception]) -> Iterator[None]:
    """Logs that Redis or the database is away, or `more` happened: the next pass does the work."""
    expected: tuple[type[Exception], ...] = (StoreUnavailable, DatabaseError, *more)
    try:
        yield
    except expected as error:
        _log.warning(message, extra={"error": str(error)})


@shared_task(name=SCAN_TASK, ignore_result=True)
def scan_feeds() -> None:
    """Hands flagged and due feeds over to the fetchers, then due pages beside them. After an outage the next does."""
    now = datetime.now(UTC)
    with _outage_logged("feeds are not handed over"):
        scanner.run_scan(now)
        supplement_task.hand_over_supplements(now)


@shared_task(name="feeds.subscribe", ignore_result=True)
def subscribe_feeds() -> None:
    """Subscribes feeds that offer it, and renews subscriptions. After an outage the next pass does it."""
    with _outage_logged("hubs are not asked"):
        renewals.scan_subscriptions(datetime.now(UTC))


@shared_task(name="feeds.tell_hub", ignore_result=True)
def tell_hub() -> None:
    """Hands over the announcements to the site's own hub. After an outage the next pass does it."""
    with _outage_logged("the hub is not told of changes"):
        own_hub.announce_changes(datetime.now(UTC))


@shared_task(name="feeds.distribute", ignore_result=True)
def distribute_changes() -> None:
    """Hands over what the subscribers of this site's own hub are owed. After an outage the next pass does it."""
    with _outage_logged("subscribers are not told of changes"):
        distribution.distribute_changes(datetime.now(UTC))


@shared_task(name="feeds.prune", ignore_result=True)
def prune_feeds() -> None:
    """Removes entries that left long ago, for a second at most, old marks, removals and scans; recounts some followers.

    Subscribers of this site's hub whose lease has passed end.
    """
    now = datetime.now(UTC)
    with _outage_logged("entries could not be pruned"):
        upkeep.prune_old_entries(now, PRUNE_SECONDS)
        upkeep.prune_supplements(now)
        stories.prune_marks(now - stories.STORY_TIME, PRUNE_SECONDS)
        change_calls.prune_given_up(now - timedelta(days=settings.FEEDS_REMOVALS_DAYS))
        numbers.prune_log(now - timedelta(days=settings.FEEDS_REMOVALS_DAYS), PRUNE_SECONDS)
        scanner.prune_scans(now - timedelta(days=settings.FETCH_TIMINGS_DAYS))
        followers.recount_subscribers_in_turn(now)
        distribution.prune_subscribers(now)
        filters.remove_orphans()


@shared_task(name="feeds.number_changes", ignore_result=True)
def number_changes() -> None:
    """Gives numbers to changes whose process died before it could. After an outage the next pass does it."""
    with _outage_logged("changes have no numbers yet"):
        numbers.heal_memberships()
        numbers.number_changes(datetime.now(UTC), NUMBER_SECONDS)


@shared_task(name="feeds.judge_entries", ignore_result=True)
def judge_entries() -> None:
    """Judges entries by changed filters, as far as the change itself has not. After an outage the next does it."""
    with _outage_logged("entries are not judged by new filters"):
        filters.judge_waiting(datetime.now(UTC), NUMBER_SECONDS)


@shared_task(name="feeds.call_webhooks", ignore_result=True)
def call_webhooks() -> None:
    """Hands new entries over to webhooks. After an outage the next pass does it."""
    with _outage_logged("webhooks are not called"):
        change_calls.call_webhooks(datetime.now(UTC))


@shared_task(name="feeds.count_readers", ignore_result=True)
def count_readers() -> None:
    """Counts the readers of feeds. After an outage the next pass does it."""
    with _outage_logged("readers of feeds are not counted"):
        followers.count_readers(datetime.now(UTC))


@shared_task(name="feeds.render", ignore_result=True)
def render_feed_page(work_key: str, token: int, address: str) -> None:
    """Renders one page of a feed or of a combination. Does not raise if that fails."""
    worker.prepare(work_key, token, partial(prepare_page, address))


@shared_task(name="feeds.reseal", ignore_result=True)
def reseal_secrets() -> None:
    """Seals passwords and headers of an earlier SECRET_KEY with the current one."""
    with _outage_logged("secrets of feeds are not sealed anew"):
        credentials.reseal_all()


@shared_task(name="feeds.tell_of_failing", ignore_result=True)
def tell_of_failing() -> None:
    """Sends mail about feeds that have failed for long. While the mail server is away, the next pass does it."""
    with _outage_logged("admins get no mail about failing feeds", OSError):
        upkeep.mail_failing_feeds(datetime.now(UTC))
