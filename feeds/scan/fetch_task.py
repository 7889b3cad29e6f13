"""The fetchers' task that gathers feeds: what is asked of a publisher, and what becomes of the answer.

Sends nothing itself: the fetcher does, between `fetch` and `prepare`. Rows are the truth: for a scan the work only
ends; for a client who waits, the page that was asked for comes out of it.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from django.conf import settings
from django.db import Error as DatabaseError

from resources.fetching.conf import fast_limits, slow_limits
from resources.fetching.errors import UnreadableSealError
from resources.fetching.outcomes import Failed, Failure, Fetched, NotModified, Timing
from resources.fetching.requests import Fetch
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from ..composing import pages
from ..composing.lacking import lack
from ..errors import FeedError
from ..keeping import credentials
from ..models import Entry, Feed
from . import delivered, settling
from .apart import BusyError
from .work import asked_url

AGAIN_SECONDS = 5.0
"""When work is done again that failed of ourselves."""

MOST_RECORD_SECONDS = 600.0
"""For so long at the most those who ask are told of a failure without a new attempt."""

_log = logging.getLogger("tarry.feeds")

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml;q=0.9, "
    "application/json;q=0.9, application/xml;q=0.9, text/xml;q=0.9, text/html;q=0.5, */*;q=0.1"
)


class FetchFeed:
    """The task `feeds.fetch`. Its arguments are the URL, the feed's id, and the page that is wanted, or nothing."""

    obeys_robots = False
    """Somebody subscribed to this very URL. Robots that find their own way are what robots.txt is for."""

    settles_waits = True
    """A row says when its feed is fetched next, and why then. What is slow holds a place for as long each time."""

    def fetch(self, *arguments: Argument) -> Fetch | Mapping[str, Prepared]:
        """The request, with the validators of what is stored; nothing where no scan would hand it over any more.

        Nothing either where its hub has delivered what there is: that is stored here. Raises PreparationError.
        """
        url, feed_id, page = str(arguments[0]), int(arguments[1]), str(arguments[2])
        try:
            feed = Feed.objects.filter(pk=feed_id).first()
            if feed is None:
                raise _gone()
            if page and feed.checked_at is not None and feed.next_check_at > datetime.now(UTC):
                return _page(feed_id, page)  # somebody else's fetch came first, good or not
            if not _is_wanted(feed, url, page):
                return {}
            if delivered.take(feed_id, feed.url):
                return _page(feed_id, page) if page else {}
            return _request(feed)
        except DatabaseError as error:
            raise _unreadable() from error
        except BusyError as error:
            raise PreparationError(str(error), status=503, retry_seconds=AGAIN_SECONDS) from error
        except (UnreadableSealError, ValueError) as error:
            _settle(feed_id, url, _ours(str(error)))
            raise PreparationError("The feed's secrets cannot be read.", retry_seconds=AGAIN_SECONDS) from error

    def prepare(self, outcome: Fetched | NotModified | Failed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Stores what came, and gives the page that is wanted. Leaves the body's file to the fetcher.

        Raises PreparationError.
        """
        feed_id, page = int(arguments[1]), str(arguments[2])
        _settle(feed_id, str(arguments[0]), outcome)
        return _page(feed_id, page) if page else {}


TASK = FetchFeed()


def _is_wanted(feed: Feed, url: str, page: str) -> bool:
    """Whether it is still at that address, and not paused where nobody waits for a page.

    Raises PreparationError where somebody does, and it has moved.
    """
    has_moved = asked_url(feed.pk, feed.url, is_private=credentials.is_private(feed)) != url
    if page and has_moved:
        raise PreparationError("The feed has another address by now.", status=503, retry_seconds=AGAIN_SECONDS)
    if not page and (has_moved or feed.paused):
        Feed.objects.filter(pk=feed.pk).update(handed_over_at=None)
        return False
    return True


def _request(feed: Feed) -> Fetch:
    """Raises UnreadableSealError, and ValueError for headers that cannot be sent."""
    is_kept = feed.fetched_at is not None and Entry.objects.filter(feed=feed).exists()
    return Fetch(
        feed.url,
        kind="feed",
        headers={"Accept": ACCEPT, **credentials.shown_to_server(feed)},
        etag=(feed.etag or None) if is_kept else None,
        last_modified=(feed.last_modified or None) if is_kept else None,
        validated_url=feed.validated_url or None,
        limits=replace(fast_limits(), max_body_bytes=settings.FEEDS_MAX_BYTES),
        slow_limits=replace(slow_limits(), max_body_bytes=settings.FEEDS_MAX_BYTES),
    )


def _settle(feed_id: int, url: str, outcome: Fetched | NotModified | Failed) -> None:
    try:
        settling.settle(feed_id, url.partition("#")[0], outcome, datetime.now(UTC))
    except DatabaseError as error:
        _log.warning("a feed could not be stored", extra={"feed": feed_id, "error": str(error)})
        raise _unreadable() from error
    except FeedError as error:
        raise PreparationError(str(error), status=503, retry_seconds=AGAIN_SECONDS) from error


def _page(feed_id: int, page: str) -> Mapping[str, Prepared]:
    """The page that somebody waits for, of what is kept by now. Raises PreparationError where that is nothing."""
    try:
        feed = Feed.objects.filter(pk=feed_id).first()
        if feed is None:
            raise _gone()
        if feed.fetched_at is not None:
            return pages.prepared(page)
    except DatabaseError as error:
        raise _unreadable() from error
    raise _failure(feed)


def _failure(feed: Feed) -> PreparationError:
    """What those are told who ask for a feed that was never read, and for how long."""
    told = lack(feed.trouble, feed.next_check_at, datetime.now(UTC))
    wait_seconds = min(told.wait_seconds, MOST_RECORD_SECONDS)
    return PreparationError(told.detail, status=told.status, retry_seconds=wait_seconds)


def _ours(detail: str) -> Failed:
    """A failure of this site, without a request."""
    return Failed(Failure.OURS, detail, Timing(datetime.now(UTC).timestamp(), 0))


def _gone() -> PreparationError:
    return PreparationError("There is no such feed any more.", status=404)


def _unreadable() -> PreparationError:
    """The database is away: nothing is known of the feed, and it is done again."""
    return PreparationError("The feeds cannot be read now.", status=503, retry_seconds=AGAIN_SECONDS)
