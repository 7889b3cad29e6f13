"""What hubs have delivered: bodies that wait in `cache` until the scan reads them in place of asking the origin.

They are a saving and no more: where some are evicted, or too many, the flagged feed is fetched; how many there should
be is on its row. Which of them came before is remembered in `state`: a delivery that is sent again, by whomever,
changes nothing.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from redis.exceptions import RedisError

from retry import connections
from retry.errors import StoreUnavailable

MOST_WAITING = 5
"""Of one feed. When there are more, none is kept: what its origin has is all of them together."""
KEPT = timedelta(hours=1)
MOST_REMEMBERED = 200
"""Of one subscription: the last that came."""
REMEMBERED = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A body whose signature holds, with its type as the hub says it."""

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


def came_before(subscription_id: int, delivery: Delivery) -> bool:
    """Whether the subscription has had the same. Fails fast. Raises StoreUnavailable."""
    try:
        return connections.client("state").zscore(_known(subscription_id), delivery.digest) is not None
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error


def remember(subscription_id: int, delivery: Delivery) -> None:
    """After it was kept and its feed flagged: what is lost before comes again. Fails fast. Raises StoreUnavailable."""
    name = _known(subscription_id)
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            pipeline.zadd(name, {delivery.digest: delivery.received_at.timestamp()})
            pipeline.zremrangebyrank(name, 0, -MOST_REMEMBERED - 1)
            pipeline.expire(name, REMEMBERED)
            pipeline.execute()
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error


def keep(feed_id: int, delivery: Delivery) -> None:
    """Keeps it until the feed's next fetch. Fails fast. Raises StoreUnavailable."""
    name = _waiting(feed_id)
    try:
        with connections.client("cache").pipeline(transaction=False) as pipeline:
            pipeline.rpush(name, delivery.written())
            pipeline.expire(name, KEPT)
            waiting = pipeline.execute()[0]
        if waiting > MOST_WAITING:
            connections.client("cache").delete(name)
    except RedisError as error:
        raise StoreUnavailable(f"cache: {error}") from error


def waiting(feed_id: int) -> list[Delivery]:
    """Those that wait, in the order in which they came; none where `cache` is away.

    Those that come at once may be kept in another order than that.
    """
    try:
        held = connections.client("cache").lrange(_waiting(feed_id), 0, -1)
    except RedisError:
        return []
    found = [Delivery.read(one) for one in held if isinstance(one, bytes)]
    return sorted(found, key=lambda one: one.received_at)


def done(feed_id: int, number: int) -> None:
    """So many of them have been read. Where `cache` is away they are read again, which changes nothing."""
    try:
        connections.client("cache").ltrim(_waiting(feed_id), number, -1)
    except RedisError:
        return


def _waiting(feed_id: int) -> str:
    return f"feeds:delivered:{feed_id}"


def _known(subscription_id: int) -> str:
    return f"feeds:heard:{subscription_id}"
