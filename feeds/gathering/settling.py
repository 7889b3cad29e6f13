"""What becomes of an answer: read where it has to be, compared with what is kept, stored."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings

from resources.apart import Allowance
from resources.fetching.outcomes import Failed, Fetched, NotModified

from ..deciding.checking import Read, Unchanged, Unreadable
from ..deciding.standing import Hints
from ..keeping import adding, flagging, storing
from ..keeping.storing import Came, Kept, Stored
from ..models import Feed
from ..parsing.discovery import FeedAddress
from ..readings import NoFeed, Question, Reading
from .apart import Readers

MOST_ROUNDS = 5

READERS = Readers(settings.FEEDS_READERS)


def settle(feed_id: int, url: str, outcome: Fetched | NotModified | Failed, now: datetime) -> Stored:
    """Stores what came from that address for the feed. Raises DatabaseError and BusyError.

    Where a web page came for a feed that was never read, what it announces takes its place.
    """
    for _ in range(MOST_ROUNDS):
        feed = Feed.objects.filter(pk=feed_id).first()
        if feed is None or feed.url != url:
            return Stored.GONE
        kept = Kept.of(feed) if isinstance(outcome, Fetched) else Kept({}, frozenset())
        came, announced = _came(feed, kept, outcome)
        stored = storing.store(feed, kept, came, now)
        if stored is Stored.STORED and announced and not isinstance(outcome, Failed):
            _discover(feed, announced, outcome.head.url, now)
        if stored is not Stored.AGAIN:
            return stored
    return Stored.OVERTAKEN


def _discover(feed: Feed, announced: Sequence[FeedAddress], page_url: str, now: datetime) -> None:
    if adding.discovered(feed.pk, announced, page_url, now):
        flagging.ask_for_scan()


def _came(feed: Feed, kept: Kept, outcome: Fetched | NotModified | Failed) -> tuple[Came, Sequence[FeedAddress]]:
    """What it is, and the feeds that it announces if it is a web page."""
    began_at = datetime.fromtimestamp(outcome.timing.started_at, UTC)
    match outcome:
        case Failed():
            return Came(outcome, outcome, began_at), ()
        case NotModified(head):
            return Came(outcome, Unchanged(head), began_at), ()
        case Fetched(head, body) if kept.marks and feed.body_digest == body.digest:
            return Came(outcome, Unchanged(head), began_at), ()
        case Fetched(head, body):
            question = Question(head.content_type, head.url, began_at, tuple(kept.marks.values()))
            match READERS.read(body, question, Allowance(settings.FEEDS_READ_BYTES, settings.FEEDS_READ_SECONDS)):
                case Reading() as reading:
                    found = Read(head, _asked(reading.said), reading.is_same)
                    return Came(outcome, found, began_at, reading), ()
                case NoFeed(why, announced):
                    return Came(outcome, Unreadable(why), began_at), announced


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
