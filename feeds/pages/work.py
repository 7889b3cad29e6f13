"""Decides which work makes a feed's page, or why there is none, and names the work.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from resources.traffic.asked import Asked as Counted
from retry.work import Work

from ..schedule.state import UNCOUNTED_TROUBLES, Trouble
from .query import EPOCH, PageQuery

FETCH_TASK = "feeds.fetch"

FETCH_LANE = "fetch.fast"
FETCH_REFRESH_LANE = "fetch.refresh"
SCAN_LANE = "fetch.feeds"


def scan_work(feed_id: int, url: str) -> Work:
    """Fetches a due feed. Its refresh lane is for scans; its result is in the database alone."""
    return Work(feed_work_key(feed_id), "feed", FETCH_LANE, SCAN_LANE, FETCH_TASK, (url, feed_id, ""))


def fetch_page_work(content_key: str, version: int, feed_id: int, url: str, page_argument: str) -> Work:
    """Fetches a feed for a client that waits for a page of it, and renders that page."""
    key = f"fetch:{content_key}:{version}"
    return Work(key, "feed page", FETCH_LANE, FETCH_REFRESH_LANE, FETCH_TASK, (url, feed_id, page_argument))


def feed_work_key(feed_id: int) -> str:
    return f"fetch:feed:{feed_id}"


RENDER_TASK = "feeds.render"


def render_work(asked: PageQuery, content_key: str, version: int) -> Work:
    kind = f"{'feeds' if asked.is_combined else 'feed'}:{asked.format}"
    return Work(f"{content_key}:{version}", kind, "paint.pages", "paint.refresh", RENDER_TASK, (asked.address,))


def describe_request(address: str) -> Counted | None:
    """Describes a request for a feed or a combination; None for others. Searches and later pages count as the first.

    `noted` is the feed or the category that a program reads: pages for people and lists of feeds are not noted.
    """
    page = PageQuery.read_path(address)
    if page is None:
        return None
    kind, noted = "feeds" if page.is_combined else "feed", "" if page.format in ("html", "opml") else page.slug
    return Counted(kind, page.format, page.key, noted)


@dataclass(frozen=True, slots=True)
class MissingPage:
    """There is no page, and the publisher is not asked for one now: the HTTP status, the sentence, and the wait."""

    status: int
    detail: str
    wait_seconds: float


def explain_missing_page(trouble: str, next_check_at: datetime, now: datetime) -> MissingPage:
    """Explains why there is no page. `trouble` is the name of the last fetch's Trouble, empty for none.

    The sentence has no addresses, which may be of a private network.
    """
    wait_seconds = (next_check_at - now).total_seconds()
    if wait_seconds <= 0:  # a page was there, which announces feeds
        return MissingPage(503, "The feed is being fetched from another address.", 1.0)
    if trouble not in Trouble.__members__:
        return MissingPage(503, "The feed could not be fetched.", wait_seconds)
    met = Trouble[trouble]
    status = 504 if met is Trouble.TIMEOUT else 503 if met in UNCOUNTED_TROUBLES else 502
    return MissingPage(status, f"The feed could not be fetched: {met.value}.", wait_seconds)


@dataclass(frozen=True, slots=True)
class PageState:
    """The facts of a feed's row. `fetched_at`: the last good fetch; `trouble`: of the last fetch."""

    version: int
    paused: bool
    next_check_at: datetime
    checked_at: datetime | None
    fetched_at: datetime | None
    trouble: str


@dataclass(frozen=True, slots=True)
class FetchThenRender:
    """Fetch the feed first: pages older than `version` are stale until it was fetched.

    `has_entries`: the stored entries are good enough to be served meanwhile.
    """

    version: int
    has_entries: bool


def decide_page(
    feed: PageState, now: datetime, *, grace: timedelta, stale: timedelta
) -> FetchThenRender | MissingPage | None:
    """Decides how a page of the feed is prepared; None: the stored entries are rendered.

    Scans fetch due feeds. If none comes within `grace` after a feed's time, its next reader has it fetched, and gets
    the stored entries if they are not more than `stale` out of date.
    """
    late = now - feed.next_check_at
    if feed.paused:
        return None
    if feed.fetched_at is None:
        if feed.checked_at is not None and late < timedelta(0):
            return explain_missing_page(feed.trouble, feed.next_check_at, now)
        return FetchThenRender(_version_after_fetch(feed), has_entries=False)
    return FetchThenRender(_version_after_fetch(feed), has_entries=late <= stale) if late > grace else None


def _version_after_fetch(feed: PageState) -> int:
    """A version newer than all pages, and the same until the feed is fetched."""
    return max(feed.version + 1, (feed.next_check_at - EPOCH) // timedelta(microseconds=1))
