"""Feeds and their entries as pages name them: without what the address of a feed may hide, under ids that stay."""

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urlsplit

from django.conf import settings

from feeds import encoding, hiding
from feeds.models import Category, Entry, Feed, Move
from feeds.parsing import documents

from . import heads
from .asking import Asked
from .heads import Origin

_NAMES = ("slug", "url", "validated_url", "host", "title", "own_title", "site", "said")
_NOT_IN_TAGS = re.compile(r"[^a-z0-9.-]+")


def site() -> str:
    """Where this site is, for addresses in what it writes."""
    return settings.PUBLIC_URL or f"http://127.0.0.1:{settings.PORT}"


def of(feed: Feed) -> Origin:
    """By its row and its moves. Raises DatabaseError."""
    return _of(feed, _addresses([feed])[feed.pk])


def _addresses(feeds: Collection[Feed]) -> Mapping[int, set[str]]:
    """Where each is, what that redirects to, and where it was: entries of then may repeat that."""
    found = {feed.pk: {feed.url, feed.validated_url} for feed in feeds}
    for feed_id, *urls in Move.objects.filter(feed__in=list(found)).values_list("feed_id", "old_url", "new_url"):
        found[feed_id].update(urls)
    return found


def _of(feed: Feed, addresses: Iterable[str]) -> Origin:
    secrets, asked = hiding.secrets_of_all(addresses), Asked.page_of_feed(feed.slug)
    return Origin(
        id=_tag("feed", feed.pk),
        url=f"{site()}{asked.as_format('atom').address}",
        page=asked.address,
        title=feed.shown_title,
        site=feed.shown_site,
        said=encoding.feed_from_json(hiding.without(feed.said, secrets)),
        secrets=secrets,
    )


def of_all(subject: Feed | Category, entries: Iterable[Entry]) -> Mapping[int, Origin]:
    """The feeds of these entries, which are on a page of `subject`, each once."""
    if isinstance(subject, Feed):
        return {subject.pk: of(subject)}
    rows = Feed.objects.only(*_NAMES).in_bulk({entry.feed_id for entry in entries})
    addresses = _addresses(rows.values())
    return {pk: _of(feed, addresses[pk]) for pk, feed in rows.items()}


def entry(row: Entry, origin: Origin) -> documents.Entry:
    """What the entry says."""
    read = encoding.entry_from_json(hiding.without(row.data, origin.secrets))
    return heads.named(read, _tag("entry", row.pk))


def _tag(kind: str, number: int) -> str:
    """An id that follows no address (RFC 4151): a row's, by its number."""
    host = _NOT_IN_TAGS.sub("-", urlsplit(site()).hostname or "").strip("-")
    return f"tag:{host},2026:{kind}:{number}"
