"""Pushes: they flag the feed of a subscription, in one statement, and fetch nothing.

A feed that was flagged and not taken since stays as it is. One that was fetched, or handed over, a moment ago is
flagged for a moment later: no push is lost, and nobody can have it fetched again and again.
"""

from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from django.conf import settings
from django.db import connection

from ..models import Feed
from ..pushing.discovering import Kind
from ..pushing.renewing import ENDED_STATES
from ..subscriptions import Hub, Subscription

PENDING = timedelta(minutes=15)
"""For so long after it was asked for a verification is answered."""
_ENDED = ", ".join(f"'{state}'" for state in ENDED_STATES)


class Pushed(Enum):
    """What became of a push."""

    FLAGGED = "flagged"
    LATER = "flagged for a moment later"
    ALREADY = "flagged already"
    UNKNOWN = "no such subscription"


def push(kind: Kind, token: str, topic: str, now: datetime) -> Pushed:
    """Flags the feed of that subscription, if it is for that topic. Raises DatabaseError."""
    cool = timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    moments = {name: _adapted(at) for name, at in (("now", now), ("cooling", now - cool), ("later", now + cool))}
    named = {"kind": kind.value, "token": token, "topic": topic, **moments}
    with connection.cursor() as cursor:
        cursor.execute(_PUSH, named)
        if (flagged := cursor.fetchone()) is not None:
            return Pushed.LATER if flagged[0] else Pushed.FLAGGED
        cursor.execute(_KNOWN, named)
        return Pushed.UNKNOWN if cursor.fetchone() is None else Pushed.ALREADY


def delivered(feed_id: int, now: datetime) -> bool:
    """Flags a feed of which its hub has delivered what there is. False where it is paused. Raises DatabaseError."""
    return bool(Feed.objects.filter(pk=feed_id, paused=False).update(flagged_at=now, pushed_at=now))


def is_asked_for(kind: Kind, token: str, topic: str, now: datetime, intent: str = "subscribe") -> bool:
    """Whether that is what was asked of the server just now. Raises DatabaseError."""
    rows = Subscription.objects.filter(token=token, topic=topic, hub__kind=kind.value, intent=intent)
    return rows.filter(asked_at__gt=now - PENDING).exists()


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
_KNOWN = f"SELECT 1 FROM {Feed._meta.db_table} WHERE {_FEED}"  # noqa: S608
