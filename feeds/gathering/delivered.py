"""Reads what hubs have delivered, in place of asking the origin."""

import logging
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256

from django.conf import settings

from resources.apart import Allowance
from resources.clocks import AHEAD
from resources.fetching.outcomes import Body

from ..errors import FeedError
from ..keeping import deliveries, delivering
from ..keeping.deliveries import Delivery
from ..keeping.storing import Kept, Stored
from ..models import Feed
from ..readings import Question, Reading
from . import settling

_log = logging.getLogger("tarry.feeds")


def take(feed_id: int, url: str) -> bool:
    """Whether what waits has told all that there is to know: the origin need not be asked.

    Not where nothing waits, less than was delivered, or something that is no feed or older than what is stored: what
    came late was never read. Raises DatabaseError and BusyError.
    """
    waiting = deliveries.waiting(feed_id)
    if not waiting:
        return False
    taken: set[Stored | None] = set()
    if len(waiting) >= _delivered(feed_id):
        taken = {_take(feed_id, url, one, is_last=one is waiting[-1]) for one in waiting}
    deliveries.done(feed_id, len(waiting))
    return taken == {Stored.STORED}


def take_all(feed_ids: Iterable[int], until: float) -> None:
    """The same for feeds whose hosts cannot be asked now, here and not by the fetchers, until then (monotonic).

    Raises DatabaseError.
    """
    for feed_id in feed_ids:
        if time.monotonic() > until:
            return
        feed = Feed.objects.only("url").filter(pk=feed_id, paused=False).first()
        try:
            if feed is not None:
                take(feed.pk, feed.url)
        except FeedError as error:  # all readers are busy: there is another scan
            _log.warning("a delivery is not read", extra={"feed": feed_id, "error": str(error)})


def _delivered(feed_id: int) -> int:
    return Feed.objects.filter(pk=feed_id).values_list("delivered", flat=True).first() or 0


def _take(feed_id: int, url: str, delivery: Delivery, *, is_last: bool) -> Stored | None:
    """What became of it; None for what is no feed."""
    for _ in range(settling.MOST_ROUNDS):
        feed = Feed.objects.filter(pk=feed_id, url=url, fetched_at__isnull=False).first()
        if feed is None:
            return Stored.GONE
        now = datetime.now(UTC)
        if feed.fetch_began_at is not None and delivery.received_at <= feed.fetch_began_at <= now + AHEAD:
            return Stored.OVERTAKEN
        kept = Kept.of(feed)
        reading = _read(feed, kept, delivery)
        if reading is None:
            return None
        stored = delivering.store(feed, kept, reading, delivery.received_at, now, is_last=is_last)
        if stored is not Stored.AGAIN:
            return stored
    return Stored.OVERTAKEN


def _read(feed: Feed, kept: Kept, delivery: Delivery) -> Reading | None:
    """What it says; None where that is no feed."""
    body = Body(len(delivery.body), sha256(delivery.body).hexdigest(), delivery.body)
    url = feed.validated_url or feed.url
    question = Question(delivery.content_type, url, delivery.received_at, tuple(kept.marks.values()))
    allowance = Allowance(settings.FEEDS_READ_BYTES, settings.FEEDS_READ_SECONDS)
    found = settling.READERS.read(body, question, allowance)
    return found if isinstance(found, Reading) else None
