"""Feeds, entries and categories as tests want them in the database."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from feeds import readings
from feeds.models import Category, Entry, Feed
from feeds.parser import documents
from feeds.readings import BodyToRead, FeedReading
from feeds.scan import store
from feeds.scan.store import KeptEntries

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
_START = datetime(1970, 1, 1, tzinfo=UTC)


def version_at(moment: datetime) -> int:
    return (moment - _START) // timedelta(microseconds=1)


def feed(slug: str, *entries: documents.ParsedEntry, said: documents.FeedHead | None = None, **fields: object) -> Feed:
    """A feed that was fetched at NOW and is due long after this test, with its entries."""
    url = f"https://{slug}.example.org/feed"
    said = said or documents.FeedHead(title=slug.title(), link=f"https://{slug}.example.org/")
    known: dict[str, object] = {
        "url": url,
        "key_digest": sha256(url.encode()).hexdigest(),
        "host": f"{slug}.example.org",
        "own_title": said.title,
        "site": said.link,
        "said": documents.encode_fields(said),
        "version": version_at(NOW),
        "checked_at": NOW,
        "fetched_at": NOW,
        "next_check_at": datetime.now(UTC) + timedelta(hours=1),
    }
    row = Feed.objects.create(slug=slug, **{**known, **fields})
    for entry in entries:
        add(row, entry)
    return row


def add(to: Feed, entry: documents.ParsedEntry) -> Entry:
    data = documents.encode_fields(entry)
    return Entry.objects.create(
        feed=to,
        identity=sha256(entry.id.encode()).hexdigest()[:32],
        title=entry.title,
        link=entry.link,
        text=readings.searchable_text(entry),
        data=data,
        size=documents.count_json_characters(data),
        happened_at=entry.published or NOW,
        first_seen_at=NOW,
        changed_at=NOW,
    )


def entry(number: int, **fields: object) -> documents.ParsedEntry:
    """The higher its number, the newer."""
    link = f"https://site.example.org/{number}"
    known: dict[str, object] = {
        "id": link,
        "link": link,
        "title": f"Entry {number}",
        "published": NOW - timedelta(days=1) + timedelta(minutes=number),
        "content": f"<p>Text {number}</p>",
    }
    return documents.ParsedEntry(**{**known, **fields})  # type: ignore[arg-type]


def category(slug: str, *feeds: Feed, parent: Category | None = None) -> Category:
    row = Category.objects.create(slug=slug, title=slug.title(), parent=parent, version=version_at(NOW))
    row.feeds.set(feeds)
    return row


def publish(to: Feed, *items: dict[str, object], at: datetime = NOW) -> list[Entry]:
    """Has the feed publish these items of JSON Feed, as its document: read and stored; returns their entries.

    They have no numbers yet, as between the commit and `number_changes`.
    """
    document = {"version": "https://jsonfeed.org/version/1.1", "title": to.title, "items": items}
    kept = KeptEntries.of(to)
    question = BodyToRead("application/feed+json", to.url, at, tuple(kept.marks.values()))
    found = readings.read_feed_body(json.dumps(document).encode(), question)
    assert isinstance(found, FeedReading)
    store.store_entries(to, kept, found, at, is_whole=True)
    by_identity = {row.identity: row for row in Entry.objects.filter(feed=to)}
    return [by_identity[identity] for identity in found.here]
