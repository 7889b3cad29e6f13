"""Pushes: they flag the feed of a subscription, in one statement, and fetch nothing.

A feed that was flagged and not taken since stays as it is. One that was fetched, or handed over, a moment ago is
flagged for a moment later: no push is lost, and nobody can have it fetched again and again.
"""

from datetime import datetime, timedelta
from enum import Enum

from django.conf import settings
from django.db.models import Case, F, Q, QuerySet, Value, When

from ..models import Feed
from ..pushing.discovering import Kind
from ..pushing.renewing import ENDED_STATES
from ..subscriptions import Subscription

PENDING = timedelta(minutes=15)
"""For so long after it was asked for a verification is answered."""


class Pushed(Enum):
    """What became of a push."""

    FLAGGED = "flagged"
    ALREADY = "flagged already"
    UNKNOWN = "no such subscription"


def push(kind: Kind, token: str, topic: str, now: datetime) -> Pushed:
    """Flags the feed of that subscription, if it is for that topic. Raises DatabaseError."""
    feeds = Feed.objects.filter(pk__in=_live(kind, token, topic).values("feed_id"), paused=False)
    taken = Q(flagged_at=None) | Q(handed_over_at__gte=F("flagged_at"))
    is_new = taken | Q(pushed_at=None) | Q(pushed_at__lt=F("fetch_began_at"))
    cooling = now - timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    just_now = Q(fetch_began_at__gt=cooling) | Q(handed_over_at__gt=cooling)
    later = now + timedelta(seconds=settings.FEEDS_PUSH_COOL_SECONDS)
    at = Case(When(taken & just_now, then=Value(later)), When(taken, then=Value(now)), default=F("flagged_at"))
    if feeds.filter(is_new).update(flagged_at=at, pushed_at=now):
        return Pushed.FLAGGED
    return Pushed.ALREADY if feeds.exists() else Pushed.UNKNOWN


def is_asked_for(kind: Kind, token: str, topic: str, now: datetime, intent: str = "subscribe") -> bool:
    """Whether that is what was asked of the server just now. Raises DatabaseError."""
    rows = Subscription.objects.filter(token=token, topic=topic, hub__kind=kind.value, intent=intent)
    return rows.filter(asked_at__gt=now - PENDING).exists()


def _live(kind: Kind, token: str, topic: str) -> QuerySet[Subscription]:
    live = Subscription.objects.exclude(state__in=ENDED_STATES)
    return live.filter(token=token, topic=topic, hub__kind=kind.value)
