"""Keeps the bodies that hubs deliver, and reads and stores them in place of asking the origin.

They only save requests: if some are evicted from `cache`, or too many came, the flagged feed is fetched; its row
has their number. `state` remembers deliveries that came before: one that is sent again changes nothing.

A signature has no date: a captured body stays valid, and may come again once it is forgotten. So a delivery is stored
only if the dates in it show that it is newer than the stored entries (`is_newer`). Otherwise the origin is asked.

Only the entries are stored, as if the feed had not been fetched: hubs may leave out unchanged entries (WebSub, 7),
and the rest of the document may be the hub's own. So no entry leaves the feed, and its title, texts and next check
stay.
"""

import json
import logging
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest
from redis.exceptions import RedisError

from resources.database import MAX_CLOCK_LEAD, write_turn
from resources.fetch.http.messages import Body
from retry import stores

from .. import versions
from ..errors import FeedError
from ..models import Entry, Feed
from ..readings import BodyToRead, EntryRow, FeedReading
from . import push_trust, store
from .store import KeptEntries, StoreOutcome

MAX_WAITING_DELIVERIES = 5
"""Of one feed. If more come, none is kept: one answer of the origin has all of them."""
DELIVERY_KEPT = timedelta(hours=1)
MAX_REMEMBERED_DELIVERIES = 200
DELIVERY_REMEMBERED = timedelta(days=30)
NO_VALIDATORS = {"etag": "", "last_modified": "", "body_digest": ""}
"""The next request asks the origin for all of the feed: the stored entries are not those of its last answer."""

_log = logging.getLogger("tarry.feeds")


@dataclass(frozen=True, slots=True)
class Delivery:
    """A body with a valid signature, and the media type that the hub gave."""

    body: bytes
    content_type: str
    received_at: datetime

    @property
    def digest(self) -> bytes:
        return sha256(self.body).digest()

    def written(self) -> bytes:
        head = {"content_type": self.content_type, "received_at": self.received_at.timestamp()}
        return json.dumps(head).encode() + b"\n" + self.body

    @classmethod
    def read(cls, held: bytes) -> "Delivery":
        head, _, body = held.partition(b"\n")
        fields = json.loads(head)
        return cls(body, fields["content_type"], datetime.fromtimestamp(fields["received_at"], UTC))


def is_known_delivery(subscription_id: int, delivery: Delivery) -> bool:
    """True if the subscription has had the same delivery. Fails fast. Raises StoreUnavailable."""
    with stores.translate_errors("state"):
        return stores.fast_client("state").zscore(_remembered_key(subscription_id), delivery.digest) is not None


def remember_delivery(subscription_id: int, delivery: Delivery) -> None:
    """Remembers a delivery. Fails fast. Raises StoreUnavailable.

    Call it after the delivery is kept and its feed flagged: one that is lost before is sent again.
    """
    name = _remembered_key(subscription_id)
    with stores.translate_errors("state"), stores.fast_client("state").pipeline(transaction=False) as pipeline:
        pipeline.zadd(name, {delivery.digest: delivery.received_at.timestamp()})
        pipeline.zremrangebyrank(name, 0, -MAX_REMEMBERED_DELIVERIES - 1)
        pipeline.expire(name, DELIVERY_REMEMBERED)
        pipeline.execute()


def keep_delivery(feed_id: int, delivery: Delivery) -> None:
    """Keeps a delivery until the feed's next fetch. Fails fast. Raises StoreUnavailable."""
    name = _waiting_key(feed_id)
    with stores.translate_errors("cache"), stores.fast_client("cache").pipeline(transaction=False) as pipeline:
        pipeline.rpush(name, delivery.written())
        pipeline.expire(name, DELIVERY_KEPT)
        if pipeline.execute()[0] > MAX_WAITING_DELIVERIES:
            stores.fast_client("cache").delete(name)


def waiting_deliveries(feed_id: int) -> list[Delivery]:
    """Returns the waiting deliveries in the order in which they came; none where `cache` is away.

    Deliveries that come at once may be kept in another order.
    """
    try:
        held = stores.fast_client("cache").lrange(_waiting_key(feed_id), 0, -1)
    except RedisError:
        return []
    found = [Delivery.read(one) for one in held if isinstance(one, bytes)]
    return sorted(found, key=lambda one: one.received_at)


def drop_read_deliveries(feed_id: int, number: int) -> None:
    """Drops deliveries that were read. Where `cache` is away they are read again, which changes nothing."""
    with suppress(RedisError):
        stores.fast_client("cache").ltrim(_waiting_key(feed_id), number, -1)


def _waiting_key(feed_id: int) -> str:
    return f"feeds:delivered:{feed_id}"


def _remembered_key(subscription_id: int) -> str:
    return f"feeds:heard:{subscription_id}"


def store_delivery(
    feed: Feed, kept: KeptEntries, reading: FeedReading, received_at: datetime, now: datetime, *, is_last: bool
) -> StoreOutcome:
    """Stores a delivery for a feed that was loaded, with its entries, before. Raises DatabaseError.

    The feed stays handed over until the last delivery is stored.
    """
    with write_turn(), transaction.atomic():
        if (missed := store.lock_feed_to_store(feed, received_at, now)) is not None:
            return missed
        store.store_entries(feed, kept, reading, now, is_whole=False)
        news, changed = store.has_news(feed, reading), bool(reading.rows)
        reliance = push_trust.note_look(feed, received_at, has_news=news, has_changed=changed)
        fields: dict[str, Any] = {**store.build_handover_end_fields(received_at), "is_pushed": reliance.is_relied_on}
        fields["delivered"] = Greatest(F("delivered") - 1, Value(0))  # a waiting delivery may not be counted yet
        if feed.is_pushed and not reliance.is_relied_on:
            fields |= push_trust.build_tightening_fields(now, random.random())
        if not is_last:
            del fields["handed_over_at"]
        if reading.rows:
            fields |= {"changed_at": now, "version": versions.next_version(now), **NO_VALIDATORS}
        Feed.objects.filter(pk=feed.pk).update(**fields)
        if reading.rows:
            versions.touch_combinations([feed.pk], now)
    return StoreOutcome.STORED


def take_deliveries(feed_id: int, url: str) -> bool:
    """True if the waiting deliveries tell everything: the origin need not be asked.

    False if none waits, fewer than were delivered, or one cannot be stored. Later ones are not stored then: the origin
    has all of them. Raises DatabaseError and ReadersBusyError.
    """
    waiting = waiting_deliveries(feed_id)
    if not waiting:
        return False
    delivered = Feed.objects.filter(pk=feed_id).values_list("delivered", flat=True).first() or 0
    told = len(waiting) >= delivered and all(
        _take_delivery(feed_id, url, one, is_last=one is waiting[-1]) is StoreOutcome.STORED for one in waiting
    )
    drop_read_deliveries(feed_id, len(waiting))
    return told


def take_all_deliveries(feed_ids: Iterable[int], until: float) -> None:
    """Reads deliveries here, not in a fetcher, for feeds whose hosts cannot be asked now, until then (monotonic).

    Raises DatabaseError.
    """
    for feed_id in feed_ids:
        if time.monotonic() > until:
            return
        feed = Feed.objects.only("url").filter(pk=feed_id, paused=False).first()
        try:
            if feed is not None:
                take_deliveries(feed.pk, feed.url)
        except FeedError as error:  # all readers are busy: the next scan tries again
            _log.warning("a delivery is not read", extra={"feed": feed_id, "error": str(error)})


def _take_delivery(feed_id: int, url: str, delivery: Delivery, *, is_last: bool) -> StoreOutcome | None:
    """Stores one delivery; None if it is no feed, or cannot be told from an old one."""
    for _ in range(store.MAX_STORE_ROUNDS):
        feed = Feed.objects.filter(pk=feed_id, url=url, fetched_at__isnull=False).first()
        if feed is None:
            return StoreOutcome.GONE
        now = datetime.now(UTC)
        if feed.fetch_began_at is not None and delivery.received_at <= feed.fetch_began_at <= now + MAX_CLOCK_LEAD:
            return StoreOutcome.OVERTAKEN
        kept = KeptEntries.of(feed)
        reading = _read_delivery(feed, kept, delivery)
        if reading is None or not _is_reading_newer(feed, reading):
            return None
        stored = store_delivery(feed, kept, reading, delivery.received_at, now, is_last=is_last)
        if stored is not StoreOutcome.AGAIN:
            return stored
    return StoreOutcome.OVERTAKEN


def is_newer(row: EntryRow, stored_updated: str | None) -> bool:
    """Tells whether an entry's own dates show that it is newer than the stored one. Both are in ISO 8601.

    An entry that is not stored may have been, long ago: its date puts it in its place. Without one it would be news.
    """
    updated = row.data.get("updated")
    if not row.was:
        return bool(updated or row.data.get("published"))
    if not updated or not stored_updated:
        return False
    return datetime.fromisoformat(updated) > datetime.fromisoformat(stored_updated)


def _is_reading_newer(feed: Feed, reading: FeedReading) -> bool:
    """True if all new and changed entries are newer than the stored ones."""
    stored = Entry.objects.filter(feed=feed, identity__in=[row.was for row in reading.rows if row.was])
    updated = dict(stored.values_list("identity", "data__updated"))
    return all(is_newer(row, updated.get(row.was)) for row in reading.rows)


def _read_delivery(feed: Feed, kept: KeptEntries, delivery: Delivery) -> FeedReading | None:
    body = Body(len(delivery.body), sha256(delivery.body).hexdigest(), delivery.body)
    url = feed.validated_url or feed.url
    question = BodyToRead(delivery.content_type, url, delivery.received_at, tuple(kept.marks.values()))
    found = store.read_document(body, question)
    return found if isinstance(found, FeedReading) else None
