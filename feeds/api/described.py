"""Feeds and entries as the API shows them."""

from collections.abc import Mapping
from datetime import datetime

from ninja import Schema
from pydantic import Field

from feeds.composing import origins
from feeds.composing.heads import Origin
from feeds.keeping import health
from feeds.models import Entry, Feed
from feeds.opml.outlines import Path


class FeedDescribed(Schema):
    """A feed, without what its server is shown."""

    slug: str
    title: str
    site: str | None
    url: str | None = Field(description="Its address, for tokens that may manage feeds; null for others.")
    categories: list[list[str]] = Field(description="Each with those around it, the outermost first.")
    standing: str = Field(description="well, failing, gone, throttled, new, or paused.")
    hidden: bool = Field(
        description="Kept out of what is public: it has no output, and is shown to those tokens alone."
    )
    subscribers: int
    changed_at: datetime | None = Field(description="When something in it was last new.")
    checked_at: datetime | None
    next_check_at: datetime
    atom: str
    rss: str
    json_feed: str


class Feeds(Schema):
    """A page of feeds, in the order of their slugs."""

    feeds: list[FeedDescribed]
    next: str | None = Field(description="The address of the next page; null after the last.")


class Timing(Schema):
    started_at: datetime
    seconds: float
    bytes: int
    outcome: str
    status: int | None


class Health(Schema):
    """How a feed stands, and why."""

    slug: str
    standing: str
    trouble: str | None = Field(description="What the last fetch met.")
    failures: int = Field(description="In a row.")
    failing_since: datetime | None
    why: list[str] = Field(
        description="Why it is fetched then, in sentences. They may name addresses: for tokens that manage feeds."
    )
    next_check_at: datetime
    checked_at: datetime | None
    fetched_at: datetime | None = Field(description="When it was last checked well.")
    changed_at: datetime | None
    expected_seconds: float | None
    notes: list[str] = Field(description="What was mended or left out when it was last read: for the same tokens.")
    fetches: list[Timing] = Field(description="The last requests, newest first.")


class EntryDescribed(Schema):
    """An entry. Texts are sanitised HTML, but for the title, which is text."""

    id: str
    link: str
    title: str
    published: datetime | None
    updated: datetime | None
    summary: str
    content: str
    authors: list[str]
    happened_at: datetime = Field(description="Its place in lists.")
    changed_at: datetime


class Entries(Schema):
    """A page of entries, newest first."""

    entries: list[EntryDescribed]
    next: str | None = Field(description="The address of the next page; null after the last.")


def described(feed: Feed, categories: tuple[Path, ...], site: str, *, with_url: bool) -> FeedDescribed:
    """The feed, with addresses on this site, `site`."""
    return FeedDescribed(
        slug=feed.slug,
        title=feed.shown_title,
        site=feed.shown_site or None,
        url=feed.url if with_url else None,
        categories=[list(path) for path in categories],
        standing=health.word(feed),
        hidden=feed.is_hidden,
        subscribers=feed.subscriber_count,
        changed_at=feed.changed_at,
        checked_at=feed.checked_at,
        next_check_at=feed.next_check_at,
        **_outputs(feed, site),
    )


def described_entry(row: Entry, origin: Origin) -> EntryDescribed:
    """The entry of a feed."""
    entry = origins.entry(row, origin)
    return EntryDescribed(
        id=entry.id,
        link=entry.link,
        title=entry.title,
        published=entry.published,
        updated=entry.updated,
        summary=entry.summary,
        content=entry.content,
        authors=[author.name or author.email or author.url for author in entry.authors],
        happened_at=row.happened_at,
        changed_at=row.changed_at,
    )


def _outputs(feed: Feed, site: str) -> Mapping[str, str]:
    beginning = f"{site}/feeds/{feed.slug}"
    return {"atom": f"{beginning}.atom", "rss": f"{beginning}.rss", "json_feed": f"{beginning}.json"}
