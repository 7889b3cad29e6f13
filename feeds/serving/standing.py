"""How a feed stands, by its row and by what is cached of it, and the work of fetching it."""

from datetime import UTC, datetime, timedelta

from django.conf import settings

from feeds.composing.asking import Asked
from feeds.composing.pages import GRACE_SCANS
from feeds.gathering.work import page_work
from feeds.keeping import credentials
from feeds.models import Feed
from retry import connections, contents
from retry.errors import StoreUnavailable
from retry.work import Work

from . import deciding
from .deciding import Fetch, Render, Standing, Wait


def decide_now(feed: Feed) -> Render | Fetch | Wait:
    """What to do for a page of the feed at this moment."""
    known = Standing(
        version=feed.version,
        paused=feed.paused,
        next_check_at=feed.next_check_at,
        checked_at=feed.checked_at,
        fetched_at=feed.fetched_at,
        trouble=feed.trouble,
    )
    grace = timedelta(seconds=GRACE_SCANS * settings.FEEDS_SCAN_SECONDS)
    return deciding.decide(known, datetime.now(UTC), grace=grace, stale=timedelta(seconds=settings.FEEDS_STALE_SECONDS))


def is_cached(content_key: str) -> bool:
    """Whether there is a page to be served while a newer one is prepared. False when nobody can say."""
    try:
        return connections.run(contents.read(content_key, with_body=False)) is not None
    except StoreUnavailable:
        return False


def fetch_work(asked: Asked, content_key: str, feed: Feed, version: int) -> Work:
    """The work of fetching a feed and rendering a page of it."""
    is_private = credentials.is_private(feed)
    return page_work(content_key, version, feed.pk, feed.url, asked.address, is_private=is_private)
