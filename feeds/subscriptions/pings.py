"""Pushes: they flag the feed of a subscription, in one statement, and fetch nothing.

That statement comes first, also for those who guess: on SQLite it takes the lock of those who write for as long as an
index is looked up, and looking before it would cost each right ping a second statement.

A feed that was flagged and not taken since stays as it is. One that was fetched, or handed over, a moment ago is
flagged for a moment later: no push is lost, and nobody can have it fetched again and again.
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

from ..models import Feed
from ..pushing import websub
from ..pushing.discovering import Kind
from ..pushing.renewing import ENDED_STATES
from ..subscriptions import Hub, Subscription

PENDING = timedelta(minutes=15)
"""For so long after it was asked for a verification is answered."""
_ENDED = ", ".join(f"'{state}'" for state in ENDED_STATES)


LOOK_MILLISECONDS, PATIENCE_SECONDS = 8, 4.0
"""How long one attempt waits for others that write, and all of them together."""


class Pushed(Enum):
    """What became of a push."""

    FLAGGED = "flagged"
    LATER = "flagged for a moment later"
    ALREADY = "flagged already"
    UNKNOWN = "no such subscription"


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription. `is_in_force`: its lease is not over. `is_fetched`: its feed is there, and not paused."""

    pk: int
    feed_id: int | None
    topic: str
    state: str
    sealed_secret: str
    is_in_force: bool
    is_fetched: bool


def push(kind: Kind, token: str, topic: str, now: datetime) -> Pushed:
    """Flags the feed of that subscription, if it is for that topic. Raises DatabaseError."""
    cool = timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    moments = {name: _adapted(at) for name, at in (("now", now), ("cooling", now - cool), ("later", now + cool))}
    named = {"kind": kind.value, "token": token, "topic": topic, **moments}
    with connection.cursor() as cursor:
        _write(cursor, _PUSH, named)
        if (flagged := cursor.fetchone()) is not None:
            return Pushed.LATER if flagged[0] else Pushed.FLAGGED
        cursor.execute(_KNOWN, named)
        return Pushed.UNKNOWN if cursor.fetchone() is None else Pushed.ALREADY


def delivered(feed_id: int, now: datetime) -> None:
    """Flags a feed of which its hub has delivered what there is, unless it is paused. Raises DatabaseError."""
    with connection.cursor() as cursor:
        _write(cursor, _DELIVERED, {"feed": feed_id, "now": _adapted(now)})


def subscription(kind: Kind, token: str, now: datetime) -> Subscribed | None:
    """That of an address, as far as callbacks ask of it; None for none. Raises DatabaseError."""
    with connection.cursor() as cursor:
        cursor.execute(_SUBSCRIBED, {"kind": kind.value, "token": token, "now": _adapted(now)})
        found = cursor.fetchone()
    if found is None:
        return None
    pk, feed_id, topic, state, sealed_secret, is_in_force, is_fetched = found
    return Subscribed(pk, feed_id, topic, state, sealed_secret, bool(is_in_force), bool(is_fetched))


def is_asked_for(token: str, topic: str, now: datetime) -> bool:
    """Whether that is what a cloud was asked for just now. Raises DatabaseError."""
    asked = Subscription.objects.filter(hub__kind=Kind.RSSCLOUD.value, intent=websub.SUBSCRIBE)
    return asked.filter(token=token, topic=topic, asked_at__gt=now - PENDING).exists()


def _write(cursor: CursorWrapper, statement: str, named: Mapping[str, Any]) -> None:
    """Raises DatabaseError.

    On SQLite, which lets one write at a time, it looks again every few milliseconds: left alone, it would soon look ten
    times a second, and find another one writing each time.
    """
    if connection.vendor != "sqlite":
        cursor.execute(statement, named)
        return
    until, usual = time.monotonic() + PATIENCE_SECONDS, settings.DATABASES["default"]["OPTIONS"]["timeout"]
    connection.connection.execute(f"PRAGMA busy_timeout = {LOOK_MILLISECONDS}")
    try:
        while not _was_written(cursor, statement, named, until):
            pass  # it has waited, in SQLite
    finally:
        connection.connection.execute(f"PRAGMA busy_timeout = {usual * 1000:.0f}")


def _was_written(cursor: CursorWrapper, statement: str, named: Mapping[str, Any], until: float) -> bool:
    """False: somebody else is writing. Raises DatabaseError when that goes on for too long."""
    try:
        cursor.execute(statement, named)
    except OperationalError as error:
        if "locked" not in str(error) or time.monotonic() > until:
            raise
        return False
    return True


def _adapted(at: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(at)


# Written out, for composing it takes longer than doing it, and hundreds of pings may come at once. Of ours are only
# the names of tables, columns and states.
_FEED = f"""
    id = (
        SELECT s.feed_id FROM {Subscription._meta.db_table} s JOIN {Hub._meta.db_table} h ON h.id = s.hub_id
        WHERE s.token = %(token)s AND s.topic = %(topic)s AND h.kind = %(kind)s AND s.state NOT IN ({_ENDED})
    ) AND NOT paused
"""  # noqa: S608  names of our own
_TAKEN = "(flagged_at IS NULL OR handed_over_at >= flagged_at)"
_JUST_NOW = "(fetch_began_at > %(cooling)s OR handed_over_at > %(cooling)s)"
_PUSH = f"""
    UPDATE {Feed._meta.db_table} SET
        pushed_at = %(now)s,
        flagged_at = CASE
            WHEN {_TAKEN} AND {_JUST_NOW} THEN %(later)s WHEN {_TAKEN} THEN %(now)s ELSE flagged_at
        END
    WHERE {_FEED} AND ({_TAKEN} OR pushed_at IS NULL OR pushed_at < fetch_began_at)
    RETURNING flagged_at > %(now)s
"""  # noqa: S608
_DELIVERED = (
    f"UPDATE {Feed._meta.db_table} SET flagged_at = %(now)s, pushed_at = %(now)s, "  # noqa: S608
    "delivered = delivered + 1 WHERE id = %(feed)s AND NOT paused"
)
_SUBSCRIBED = f"""
    SELECT s.id, s.feed_id, s.topic, s.state, s.sealed_secret,
        s.verified_at IS NOT NULL AND s.expires_at > %(now)s, f.id IS NOT NULL
    FROM {Subscription._meta.db_table} s JOIN {Hub._meta.db_table} h ON h.id = s.hub_id
    LEFT JOIN {Feed._meta.db_table} f ON f.id = s.feed_id AND NOT f.paused
    WHERE s.token = %(token)s AND h.kind = %(kind)s
"""  # noqa: S608
_KNOWN = f"SELECT 1 FROM {Feed._meta.db_table} WHERE {_FEED}"  # noqa: S608
