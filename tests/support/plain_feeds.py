"""Feeds, entries and people for tests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from feeds import addresses
from feeds.keeping import adding
from feeds.models import Entry, Feed
from feeds.parsing.documents import Entry as ParsedEntry
from feeds.updating import marks

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def feed(name: str, **fields: Any) -> Feed:
    """A feed at https://<name>.example/feed, with these fields."""
    made, _ = adding.add(addresses.read(f"https://{name}.example/feed"), title=name, now=NOW)
    Feed.objects.filter(pk=made.pk).update(**fields)
    made.refresh_from_db()
    return made


def entry(of: Feed, name: str, **fields: Any) -> Entry:
    """An entry that came an hour ago, found again by its name."""
    (mark,) = marks([ParsedEntry(id=name, title=name)])
    at = NOW - timedelta(hours=1)
    return Entry.objects.create(
        feed=of,
        identity=mark.identity,
        likeness=mark.likeness,
        content=mark.content,
        dates=mark.dates,
        **{"title": name, "data": {}, "happened_at": at, "first_seen_at": at, "changed_at": at, **fields},
    )


def user(name: str) -> User:
    return User.objects.create(username=name)
