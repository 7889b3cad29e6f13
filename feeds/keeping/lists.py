"""Lists of feeds (OPML) taken in, part by part, and made of the feeds that there are."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from resources.fetching.errors import UnreadableSealError

from ..addresses import Address
from ..models import Feed
from ..opml.outlines import FeedList, Subscription
from . import adding, categories, credentials, following

PART = 200
"""Feeds at once: so many are in the database, or none of them."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a list, or a part of it, has brought. `known` were there before; some of them came into more categories."""

    added: int = 0
    known: int = 0
    recategorised: int = 0
    followed: int = 0

    def __add__(self, other: "Imported") -> "Imported":
        return Imported(
            self.added + other.added,
            self.known + other.known,
            self.recategorised + other.recategorised,
            self.followed + other.followed,
        )

    @property
    def feeds(self) -> int:
        return self.added + self.known


def take_in(found: FeedList, follower_id: int | None, now: datetime) -> Iterator[Imported]:
    """Adds the feeds of a list part by part, each once it is there. The same again goes on where it was.

    With a follower they are followed from now on. Raises FeedError and DatabaseError; earlier parts stay then.
    """
    for start in range(0, len(found.subscriptions), PART):
        yield _take_in(found.subscriptions[start : start + PART], follower_id, now)


def foresee(found: FeedList) -> tuple[list[Subscription], int]:
    """What taking it in would add, and how many of its feeds are there. Changes nothing."""
    by_digest = {each.address.key_digest: each for each in found.subscriptions}
    digests = list(by_digest)
    known: set[str] = set()
    for start in range(0, len(digests), PART):
        rows = Feed.objects.filter(key_digest__in=digests[start : start + PART])
        known.update(rows.values_list("key_digest", flat=True))
    return [each for digest, each in by_digest.items() if digest not in known], len(known)


def subscriptions(feeds: QuerySet[Feed], *, with_passwords: bool = False) -> Iterator[Subscription]:
    """The feeds as they stand in a list. Passwords that cannot be opened any more are left out."""
    rows = feeds.only("url", "user", "sealed_password", "title", "own_title", "site", "said")
    for part in _parts(rows):
        paths = categories.paths_of(part)
        for feed in part:
            yield Subscription(
                Address(feed.url, feed.user, _password(feed) if with_passwords else ""),
                title=feed.title or feed.own_title,
                site=feed.site,
                description=_line(feed, "subtitle"),
                language=_line(feed, "language"),
                categories=paths[feed.pk],
            )


def _take_in(part: Sequence[Subscription], follower_id: int | None, now: datetime) -> Imported:
    with transaction.atomic():
        added = adding.add_all(part, now)
        ids = [feed.pk for feed in added.feeds]
        followed = following.follow(follower_id, ids, now) if follower_id is not None else 0
    return Imported(len(added.new), len(ids) - len(added.new), len(added.recategorised), followed)


def _parts(rows: QuerySet[Feed]) -> Iterator[Collection[Feed]]:
    part: list[Feed] = []
    for feed in rows.iterator(chunk_size=PART):
        part.append(feed)
        if len(part) == PART:
            yield part
            part = []
    yield part


def _password(feed: Feed) -> str:
    try:
        return credentials.password_of(feed)
    except UnreadableSealError:
        return ""


def _line(feed: Feed, name: str) -> str:
    """What a feed says of itself, in one line; it may be HTML, and is passed on as it is."""
    return " ".join(str(feed.said.get(name) or "").split())
