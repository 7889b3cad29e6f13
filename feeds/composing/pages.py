"""Prepares pages of feeds: what a worker does for one address."""

from collections.abc import Mapping
from datetime import UTC, datetime

from django.conf import settings

from feeds.models import Category, Feed
from feeds.parsing import documents
from feeds.rendering import atom, jsonfeed, rss
from feeds.rendering.pages import Page
from retry.contents import Prepared
from retry.errors import PreparationError

from . import heads, origins, people, subjects
from .asking import Asked
from .errors import UnknownError
from .selecting import Selection, select

FRESH_SECONDS = 86_400
"""Pages are stale as soon as there is a newer version; this is for those of which nobody hears anything more."""

FRESH_HTML_SECONDS = 600
"""The same for people: how pages look changes with this site."""

LEAST_FRESH_SECONDS = 10
GRACE_SCANS = 2
"""So many scans after its time a feed counts as one that they pass over."""

_RENDERERS = {"atom": atom, "rss": rss, "json": jsonfeed}


def prepared(address: str) -> Mapping[str, Prepared]:
    """The page at an address (`Asked.address`) by its content key. Raises PreparationError, DatabaseError."""
    asked = Asked.read_address(address)
    try:
        subject = subjects.find(asked)
    except UnknownError as error:
        raise PreparationError("There is no such feed any more.", status=404) from error
    body, media_type = _rendered(asked, subject)
    fresh_seconds, stale_seconds = _freshness(asked, subject, datetime.now(UTC))
    page = Prepared(body, media_type, fresh_seconds, stale_seconds, version=subject.version)
    return {subjects.content_key(asked, subject): page}


def _freshness(asked: Asked, subject: Feed | Category, now: datetime) -> tuple[float, float]:
    """For how long a page is fresh, and then stale, in seconds.

    That of one feed may be out of date when the feed was to be fetched and was not; from then on it is stale.
    """
    fresh: float = FRESH_HTML_SECONDS if asked.format == "html" else FRESH_SECONDS
    stale: float = settings.FEEDS_STALE_SECONDS
    if isinstance(subject, Category) or subject.paused:
        return fresh, stale
    left = (subject.next_check_at - now).total_seconds() + GRACE_SCANS * settings.FEEDS_SCAN_SECONDS
    return min(max(left, LEAST_FRESH_SECONDS), fresh), max(stale + min(left, 0), 0)


def _rendered(asked: Asked, subject: Feed | Category) -> tuple[bytes, str]:
    """The bytes, and what they are."""
    selection = select(asked, subject)
    if asked.format == "html":
        return people.render(asked, subject, selection), people.MEDIA_TYPE
    renderer = _RENDERERS[asked.format]
    return renderer.render(_page(asked, subject, selection)), renderer.MEDIA_TYPE


def hubs(asked: Asked) -> tuple[str, ...]:
    """The hub that is told when this page changes: searches and later pages have none, nor have those for people."""
    is_told_of = asked.format != "html" and asked.address == asked.path
    return (settings.FEEDS_HUB,) if settings.FEEDS_HUB and is_told_of else ()


def _page(asked: Asked, subject: Feed | Category, selection: Selection) -> Page:
    here = origins.site()
    is_alone = isinstance(subject, Feed)
    by_feed = origins.of_all(subject, selection.entries)
    found = ((row, by_feed[row.feed_id]) for row in selection.entries if row.feed_id in by_feed)
    said = ((origins.entry(row, origin), origin) for row, origin in found)
    entries = [read if is_alone else heads.from_elsewhere(read, origin) for read, origin in said]
    return Page(
        feed=heads.single(by_feed[subject.pk]) if isinstance(subject, Feed) else _combined(asked, subject),
        entries=entries,
        address=f"{here}{asked.address}",
        updated=_updated(subject),
        first_address=f"{here}{asked.first().address}",
        previous_address=f"{here}{asked.newer_than(selection.newer).address}" if selection.newer else "",
        next_address=f"{here}{asked.older_than(selection.older).address}" if selection.older else "",
        hubs=hubs(asked),
    )


def _combined(asked: Asked, subject: Category) -> documents.Feed:
    return heads.combined(subject.title, f"{origins.site()}{asked.as_format('html').address}", asked.words)


def _updated(subject: Feed | Category) -> datetime:
    """When anything was last changed. The same as long as nothing is: pages of one version are the same bytes."""
    return datetime.fromtimestamp(subject.version // 1_000_000, UTC)
