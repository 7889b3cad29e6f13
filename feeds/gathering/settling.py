"""What becomes of an answer: read where it has to be, compared with what is kept, stored."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial

from django.conf import settings

from resources.apart import Allowance
from resources.clocks import AHEAD
from resources.fetching.outcomes import Failed, Fetched, NotModified, Timing
from retry import observing

from ..deciding.checking import Read, Unchanged, Unreadable
from ..deciding.standing import Hints
from ..keeping import adding, flagging, storing
from ..keeping.storing import Came, Kept, Stored
from ..models import Feed
from ..pushing import discovering
from ..pushing.websub import Linked
from ..readings import NoFeed, Question, Reading
from .apart import Readers

MOST_ROUNDS = 5

READERS = Readers(settings.FEEDS_READERS, partial(observing.child_lost, "feed"))


def settle(feed_id: int, url: str, outcome: Fetched | NotModified | Failed, now: datetime) -> Stored:
    """Stores what came from that address for the feed. Raises DatabaseError and BusyError.

    Where a web page came for a feed that was never read, what it announces takes its place.
    """
    for _ in range(MOST_ROUNDS):
        feed = Feed.objects.filter(pk=feed_id).first()
        if feed is None or feed.url != url:
            return Stored.GONE
        kept = Kept.of(feed) if isinstance(outcome, Fetched) else Kept({}, frozenset())
        came, page = _came(feed, kept, outcome, now)
        stored = storing.store(feed, kept, came, now)
        if stored is Stored.STORED and page is not None and not isinstance(outcome, Failed):
            _discover(feed, page, outcome.head.url, now)
        if stored is not Stored.AGAIN:
            return stored
    return Stored.OVERTAKEN


def _discover(feed: Feed, page: NoFeed, page_url: str, now: datetime) -> None:
    """The hubs of the page are those of a feed that has none of its own."""
    if page.announced and adding.discovered(feed.pk, page.announced, page_url, now):
        linked = Linked(page.hubs, page.itself or page_url).to_json() if page.hubs else {}
        Feed.objects.filter(pk=feed.pk).update(linked={discovering.PAGE: linked})
        flagging.ask_for_scan()


def _came(feed: Feed, kept: Kept, outcome: Fetched | NotModified | Failed, now: datetime) -> tuple[Came, NoFeed | None]:
    """What it is, and the web page that it may be."""
    began_at = _began_at(outcome.timing, now)
    match outcome:
        case Failed():
            return Came(outcome, outcome, began_at), None
        case NotModified(head):
            return Came(outcome, Unchanged(head), began_at), None
        case Fetched(head, body) if kept.marks and feed.body_digest == body.digest:
            return Came(outcome, Unchanged(head), began_at), None
        case Fetched(head, body):
            question = Question(head.content_type, head.url, began_at, tuple(kept.marks.values()))
            match READERS.read(body, question, Allowance(settings.FEEDS_READ_BYTES, settings.FEEDS_READ_SECONDS)):
                case Reading() as reading:
                    found = Read(head, _asked(reading.said), reading.is_same)
                    return Came(outcome, found, began_at, reading), None
                case NoFeed(why) as page:
                    return Came(outcome, Unreadable(why), began_at), page


def _began_at(timing: Timing, now: datetime) -> datetime:
    """Where the clock was set back meanwhile, a moment before it can have been."""
    began_at = datetime.fromtimestamp(timing.started_at, UTC)
    return min(began_at, now) if began_at <= now + AHEAD else now - timedelta(seconds=timing.seconds) - AHEAD


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
