"""What becomes of an answer: read where it has to be, compared with what is kept, stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings

from resources.apart import Allowance
from resources.fetching.outcomes import Failed, Fetched, Head, NotModified

from ..deciding.checking import Finding, Read, Unchanged, Unreadable
from ..deciding.standing import Hints
from ..keeping import storing
from ..keeping.storing import Came, Kept, Stored
from ..models import Feed
from ..readings import NoFeed, Question, Reading
from .apart import Readers

MOST_ROUNDS = 5

READERS = Readers(settings.FEEDS_READERS)


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an answer, and the feed as it was before it."""

    stored: Stored
    finding: Finding | None = None


def settle(feed_id: int, url: str, outcome: Fetched | NotModified | Failed, now: datetime) -> Settled:
    """Stores what came from that address for the feed. Raises DatabaseError and BusyError."""
    for _ in range(MOST_ROUNDS):
        feed = Feed.objects.filter(pk=feed_id).first()
        if feed is None or feed.url != url:
            break
        kept = Kept.of(feed) if isinstance(outcome, Fetched) else Kept({}, frozenset())
        came = _came(feed, kept, outcome)
        stored = storing.store(feed, kept, came, now)
        if stored is not Stored.AGAIN:
            return Settled(stored, came.finding)
    return Settled(Stored.GONE)


def _came(feed: Feed, kept: Kept, outcome: Fetched | NotModified | Failed) -> Came:
    began_at = datetime.fromtimestamp(outcome.timing.started_at, UTC)
    match outcome:
        case Failed():
            return Came(outcome, outcome, began_at)
        case NotModified(head):
            return Came(outcome, Unchanged(head), began_at)
        case Fetched(head, body) if kept.marks and feed.body_digest == body.digest:
            return Came(outcome, Unchanged(head), began_at)
        case Fetched(head):
            return _read(kept, outcome, head, began_at)


def _read(kept: Kept, outcome: Fetched, head: Head, began_at: datetime) -> Came:
    content_type = head.content_type
    question = Question(content_type, head.url, began_at, tuple(kept.marks.values()))
    allowance = Allowance(settings.FEEDS_READ_BYTES, settings.FEEDS_READ_SECONDS)
    match READERS.read(outcome.body, question, allowance):
        case Reading() as reading:
            return Came(outcome, Read(head, _asked(reading.said), reading.is_same), began_at, reading)
        case NoFeed(why, announced):
            return Came(outcome, Unreadable(why), began_at, announced=announced)


def _asked(said: Mapping[str, object]) -> Hints:
    """What the feed asks of those who fetch it."""
    minutes = said.get("ttl_minutes")
    return Hints(
        ttl=timedelta(minutes=minutes) if isinstance(minutes, int) else None,
        skip_hours=_numbers(said.get("skip_hours")),
        skip_days=_numbers(said.get("skip_days")),
    )


def _numbers(held: object) -> frozenset[int]:
    return frozenset(held) if isinstance(held, list | tuple) else frozenset()
