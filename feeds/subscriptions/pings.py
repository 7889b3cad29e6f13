"""Flags the feed of a subscription that was pinged, in one statement. Nothing is fetched.

That statement comes first, even for guessed tokens: on SQLite it holds the write lock for one index look-up, and a
look before it would cost every valid ping a second statement.

A feed that is flagged already stays as it is. One that was fetched or handed over a moment ago is flagged for a
moment later: no push is lost, and no sender can have a feed fetched again and again.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from django.conf import settings
from django.db import OperationalError, connection
from django.db.backends.utils import CursorWrapper

from ..hub_models import Hub, Subscription
from ..models import Feed
from ..push import websub
from ..push.kinds import PushKind
from ..push.leases import ENDED_STATES

VERIFICATION_PENDING = timedelta(minutes=15)
"""A verification is answered for so long after the request."""
_ENDED_STATES = ", ".join(f"'{state}'" for state in ENDED_STATES)
LOCK_WAIT_MILLISECONDS, LOCK_PATIENCE_SECONDS = 8, 4.0
"""Wait for other writers: of one attempt, and of all attempts together."""


class PingResult(Enum):
    FLAGGED = "flagged"
    LATER = "flagged for a moment later"
    ALREADY = "flagged already"
    UNKNOWN = "no such subscription"


@dataclass(frozen=True, slots=True)
class CallbackSubscription:
    """A subscription for callbacks. `is_in_force`: its lease runs. `is_fetched`: its feed exists and is not paused."""

    pk: int
    feed_id: int | None
    topic: str
    state: str
    sealed_secret: str
    is_in_force: bool
    is_fetched: bool


def flag_pinged_feed(kind: PushKind, token: str, topic: str, now: datetime) -> PingResult:
    """Flags the feed of that subscription, if it is for that topic. Raises DatabaseError."""
    cool = timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    moments = {name: _adapt_time(at) for name, at in (("now", now), ("cooling", now - cool), ("later", now + cool))}
    named = {"kind": kind.value, "token": token, "topic": topic, **moments}
    with connection.cursor() as cursor:
        _execute_patiently(cursor, _FLAG_PINGED, named)
        if (flagged := cursor.fetchone()) is not None:
            return PingResult.LATER if flagged[0] else PingResult.FLAGGED
        cursor.execute(_SELECT_FEED, named)
        return PingResult.UNKNOWN if cursor.fetchone() is None else PingResult.ALREADY


def flag_delivered_feed(feed_id: int, now: datetime) -> None:
    """Flags a feed whose hub has delivered its new entries, unless it is paused. Raises DatabaseError."""
    with connection.cursor() as cursor:
        _execute_patiently(cursor, _FLAG_DELIVERED, {"feed": feed_id, "now": _adapt_time(now)})


def find_subscription(kind: PushKind, token: str, now: datetime) -> CallbackSubscription | None:
    """Returns the subscription with that token, or None. Raises DatabaseError."""
    with connection.cursor() as cursor:
        cursor.execute(_SELECT_SUBSCRIPTION, {"kind": kind.value, "token": token, "now": _adapt_time(now)})
        found = cursor.fetchone()
    if found is None:
        return None
    pk, feed_id, topic, state, sealed_secret, is_in_force, is_fetched = found
    return CallbackSubscription(pk, feed_id, topic, state, sealed_secret, bool(is_in_force), bool(is_fetched))


def is_verification_expected(token: str, topic: str, now: datetime) -> bool:
    """True if a cloud was asked for this just now. Raises DatabaseError."""
    asked = Subscription.objects.filter(hub__kind=PushKind.RSSCLOUD.value, intent=websub.SUBSCRIBE)
    return asked.filter(token=token, topic=topic, asked_at__gt=now - VERIFICATION_PENDING).exists()


def _execute_patiently(cursor: CursorWrapper, statement: str, named: Mapping[str, Any]) -> None:
    """Executes a write. Raises DatabaseError.

    On SQLite, which allows one write at a time, it tries every few milliseconds: SQLite itself would soon try ten times
    a second, and find another write each time.
    """
    if connection.vendor != "sqlite":
        cursor.execute(statement, named)
        return
    until, usual = time.monotonic() + LOCK_PATIENCE_SECONDS, settings.DATABASES["default"]["OPTIONS"]["timeout"]
    connection.connection.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_MILLISECONDS}")
    try:
        while not _try_execute(cursor, statement, named, until):
            pass  # SQLite has waited
    finally:
        connection.connection.execute(f"PRAGMA busy_timeout = {usual * 1000:.0f}")


def _try_execute(cursor: CursorWrapper, statement: str, named: Mapping[str, Any], until: float) -> bool:
    """Returns False while another process writes. Raises DatabaseError if that takes too long."""
    try:
        cursor.execute(statement, named)
    except OperationalError as error:
        if "locked" not in str(error) or time.monotonic() > until:
            raise
        return False
    return True


def _adapt_time(at: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(at)


# Raw SQL: the ORM takes longer to compose it than the database to run it, and hundreds of pings may come at once.
# The text has only names of our own: tables, columns and states.
_FEED_CONDITION = f"""
    id = (
        SELECT s.feed_id FROM {Subscription._meta.db_table} s JOIN {Hub._meta.db_table} h ON h.id = s.hub_id
        WHERE s.token = %(token)s AND s.topic = %(topic)s AND h.kind = %(kind)s AND s.state NOT IN ({_ENDED_STATES})
    ) AND NOT paused
"""  # noqa: S608  names of our own
_TAKEN_CONDITION = "(flagged_at IS NULL OR handed_over_at >= flagged_at)"
_JUST_NOW_CONDITION = "(fetch_began_at > %(cooling)s OR handed_over_at > %(cooling)s)"
_FLAG_PINGED = f"""
    UPDATE {Feed._meta.db_table} SET
        pushed_at = %(now)s,
        flagged_at = CASE
            WHEN {_TAKEN_CONDITION} AND {_JUST_NOW_CONDITION} THEN %(later)s
            WHEN {_TAKEN_CONDITION} THEN %(now)s ELSE flagged_at
        END
    WHERE {_FEED_CONDITION} AND ({_TAKEN_CONDITION} OR pushed_at IS NULL OR pushed_at < fetch_began_at)
    RETURNING flagged_at > %(now)s
"""  # noqa: S608
_FLAG_DELIVERED = (
    f"UPDATE {Feed._meta.db_table} SET flagged_at = %(now)s, pushed_at = %(now)s, "  # noqa: S608
    "delivered = delivered + 1 WHERE id = %(feed)s AND NOT paused"
)
_SELECT_SUBSCRIPTION = f"""
    SELECT s.id, s.feed_id, s.topic, s.state, s.sealed_secret,
        s.verified_at IS NOT NULL AND s.expires_at > %(now)s, f.id IS NOT NULL
    FROM {Subscription._meta.db_table} s JOIN {Hub._meta.db_table} h ON h.id = s.hub_id
    LEFT JOIN {Feed._meta.db_table} f ON f.id = s.feed_id AND NOT f.paused
    WHERE s.token = %(token)s AND h.kind = %(kind)s
"""  # noqa: S608
_SELECT_FEED = f"SELECT 1 FROM {Feed._meta.db_table} WHERE {_FEED_CONDITION}"  # noqa: S608
