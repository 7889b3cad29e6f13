"""Feeds, entries and people for tests."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from feeds import addresses, catalogue
from feeds.diff import mark_entries
from feeds.models import Category, Entry, Feed
from feeds.parser.documents import ParsedEntry
from resources.fetch.models import FetchTiming
from resources.fetch.timings import digest_url

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def feed(name: str, **fields: Any) -> Feed:
    """A feed at https://<name>.example/feed, with these fields."""
    made, _ = catalogue.add_feed(addresses.read_address(f"https://{name}.example/feed"), title=name, now=NOW)
    Feed.objects.filter(pk=made.pk).update(**fields)
    made.refresh_from_db()
    return made


def entry(of: Feed, name: str, **fields: Any) -> Entry:
    """An entry that came an hour ago, found again by its name."""
    (mark,) = mark_entries([ParsedEntry(id=name, title=name)])
    at = NOW - timedelta(hours=1)
    return Entry.objects.create(
        feed=of,
        **asdict(mark),
        **{"title": name, "data": {}, "happened_at": at, "first_seen_at": at, "changed_at": at, **fields},
    )


def timing(
    of: Feed, seconds: float, outcome: str = "fetched", started_at: datetime = NOW, scan: int | None = None
) -> FetchTiming:
    """A recorded fetch of the feed's address."""
    known = {"host": of.host, "scope": of.host, "kind": "feed", "lane": "fast", "wire_bytes": 100}
    timed = {"started_at": started_at, "seconds": seconds, "outcome": outcome, "scan": scan}
    return FetchTiming.objects.create(url_digest=digest_url(of.url), **known, **timed)


def category(slug: str, *feeds: Feed, parent: Category | None = None) -> Category:
    """A category of these feeds, which was never changed."""
    made = Category.objects.create(slug=slug, title=slug.title(), parent=parent)
    made.feeds.set(feeds)
    return made


def user(name: str) -> User:
    return User.objects.create(username=name)
