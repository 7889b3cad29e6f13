"""The fetchers' task for feeds: the request to the publisher, and the handling of its answer.

Sends nothing itself: the fetcher does, between `fetch` and `prepare`. Rows are the truth: for a scan the work just
ends; for a waiting client it results in the requested page.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from django.conf import settings
from django.db import Error as DatabaseError

from resources.fetch.conf import fast_limits, slow_limits
from resources.fetch.http import messages
from resources.fetch.http.messages import Fetched, FetchFailed, FetchRequest, NotModified
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from .. import credentials
from ..errors import FeedError
from ..models import Entry, Feed
from ..pages import render
from ..pages.work import explain_missing_page
from . import deliveries, store
from .reader_process import ReadersBusyError

RETRY_SECONDS = 5.0
"""Wait before work is retried that failed on our side."""

MAX_FAILURE_RECORD_SECONDS = 600.0
"""Longest time for which clients get a failure record in place of a new attempt."""

_log = logging.getLogger("tarry.feeds")

ACCEPT_FIELD = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/json;q=0.9, application/xml;q=0.9, text/xml;q=0.9, text/html;q=0.5, */*;q=0.1"
)


class FetchFeed:
    """The task `feeds.fetch`. Its arguments are the URL, the feed's id, and the requested page, or nothing."""

    obeys_robots = False
    """People subscribe to this very URL. robots.txt is for robots that find their own way."""

    settles_waits = True
    """The row has the time and reason of the next fetch. A slow feed holds a slot for as long each time."""

    def identify(self, *arguments: Argument) -> str:
        """Returns the feed: its credentials go with the request, and its answer is for its own readers."""
        return f"feed-{arguments[1]}"

    def fetch(self, *arguments: Argument) -> FetchRequest | Mapping[str, Prepared]:
        """Returns the request, with the stored validators; nothing for a feed that no scan would hand over any longer.

        Also returns nothing where its hub has delivered everything: that is stored here. Raises PreparationError.
        """
        url, feed_id, page = str(arguments[0]), int(arguments[1]), str(arguments[2])
        try:
            feed = Feed.objects.filter(pk=feed_id).first()
            if feed is None:
                raise _gone_error()
            if page and feed.checked_at is not None and feed.next_check_at > datetime.now(UTC):
                return _prepare_page(feed_id, page)  # another fetch came first, good or not
            if not _is_wanted(feed, url, page):
                return {}
            if deliveries.take_deliveries(feed_id, feed.url):
                return _prepare_page(feed_id, page) if page else {}
            return _make_request(feed, None if page or feed.handed_over_at is None else feed.scan_id)
        except DatabaseError as error:
            raise _database_error() from error
        except ReadersBusyError as error:
            raise PreparationError(str(error), status=503, retry_seconds=RETRY_SECONDS) from error
        except (messages.UnreadableSealError, ValueError) as error:
            timing = messages.OutcomeTiming(datetime.now(UTC).timestamp(), 0)
            _settle_answer(feed_id, url, FetchFailed(messages.Failure.OURS, str(error), timing))
            raise PreparationError("The feed's secrets cannot be read.", retry_seconds=RETRY_SECONDS) from error

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Stores the outcome, and returns the requested page. Leaves the body's file to the fetcher.

        Raises PreparationError.
        """
        feed_id, page = int(arguments[1]), str(arguments[2])
        _settle_answer(feed_id, str(arguments[0]), outcome)
        return _prepare_page(feed_id, page) if page else {}


TASK = FetchFeed()


def _is_wanted(feed: Feed, url: str, page: str) -> bool:
    """True if the feed has that address, and is not paused unless a client waits for a page.

    Raises PreparationError if a client waits and the feed has moved.
    """
    has_moved = feed.url != url
    if page and has_moved:
        raise PreparationError("The feed has another address now.", status=503, retry_seconds=RETRY_SECONDS)
    if not page and (has_moved or feed.paused):
        Feed.objects.filter(pk=feed.pk).update(handed_over_at=None)
        return False
    return True


def _make_request(feed: Feed, scan: int | None) -> FetchRequest:
    """Makes the request, by that scan. Raises UnreadableSealError, and ValueError for headers that cannot be sent."""
    is_kept = feed.fetched_at is not None and Entry.objects.filter(feed=feed).exists()
    return FetchRequest(
        feed.url,
        kind="feed",
        headers={"Accept": ACCEPT_FIELD, **credentials.request_headers(feed)},
        etag=(feed.etag or None) if is_kept else None,
        last_modified=(feed.last_modified or None) if is_kept else None,
        validated_url=feed.validated_url or None,
        limits=replace(fast_limits(), max_body_bytes=settings.FEEDS_MAX_BYTES),
        slow_limits=replace(slow_limits(), max_body_bytes=settings.FEEDS_MAX_BYTES),
        scan=scan,
    )


def _settle_answer(feed_id: int, url: str, outcome: Fetched | NotModified | FetchFailed) -> None:
    try:
        store.settle_fetch(feed_id, url, outcome, datetime.now(UTC))
    except DatabaseError as error:
        _log.warning("a feed could not be stored", extra={"feed": feed_id, "error": str(error)})
        raise _database_error() from error
    except FeedError as error:
        raise PreparationError(str(error), status=503, retry_seconds=RETRY_SECONDS) from error


def _prepare_page(feed_id: int, page: str) -> Mapping[str, Prepared]:
    """Prepares the requested page from the stored entries. Raises PreparationError where there are none."""
    try:
        feed = Feed.objects.filter(pk=feed_id).first()
        if feed is None:
            raise _gone_error()
        if feed.fetched_at is not None:
            return render.prepare_page(page)
    except DatabaseError as error:
        raise _database_error() from error
    lack = explain_missing_page(feed.trouble, feed.next_check_at, datetime.now(UTC))
    wait_seconds = min(lack.wait_seconds, MAX_FAILURE_RECORD_SECONDS)
    raise PreparationError(lack.detail, status=lack.status, retry_seconds=wait_seconds)


def _gone_error() -> PreparationError:
    return PreparationError("The feed no longer exists.", status=404)


def _database_error() -> PreparationError:
    """The error while the database is away: nothing is known of the feed, and the work is retried."""
    return PreparationError("The feeds cannot be read now.", status=503, retry_seconds=RETRY_SECONDS)
