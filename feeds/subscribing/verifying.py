"""What hubs say of a subscription, as it is stored: only what was asked of them is confirmed (WebSub, 5.3)."""

import random
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from django.db.models import QuerySet

from ..keeping import trust
from ..pushing import renewing, websub
from ..pushing.discovering import Kind
from ..pushing.renewing import ENDED_STATES, Refused, Standing, State
from ..subscriptions import Subscription
from . import standings, wanting

PENDING = timedelta(days=1)
"""For so long after it was asked a hub may verify: some have queues."""

_GRANTED = ("intent", "failures", "reason", "verified_at", "expires_at", "due_at")


def begin(token: str, topic: str, lease: timedelta, now: datetime) -> bool:
    """It is in force for that time, if it was asked for. What is forged writes nothing. Raises DatabaseError."""
    granted = asdict(renewing.granted(Standing(), lease, random.random(), standings.rules(), now))
    fields = {**{name: granted[name] for name in _GRANTED}, "state": State.VERIFIED.value}
    rows = _pending(token, topic, websub.SUBSCRIBE, now).filter(feed__isnull=False).exclude(state__in=ENDED_STATES)
    return rows.exists() and bool(rows.update(**fields))


def end(token: str, topic: str, now: datetime) -> bool:
    """It has ended, if that was asked for. What is forged writes nothing. Raises DatabaseError."""
    fields = standings.fields_of(renewing.ended(Standing(), now, "It was taken back."))
    ended = {name: fields[name] for name in ("state", "intent", "due_at", "ended_at", "reason")}
    rows = _pending(token, topic, websub.UNSUBSCRIBE, now).exclude(state=State.ENDED.value)
    return rows.exists() and bool(rows.update(**ended))


def deny(token: str, topic: str, reason: str, now: datetime) -> bool:
    """There is none, or not any more: its feed is polled as before. Raises DatabaseError."""
    asked = _of(token, topic).filter(asked_at__isnull=False).exclude(state=State.ENDED.value)
    row = asked.select_related("hub").first()
    if row is None:
        return False
    if row.state == State.LEAVING.value:
        after = renewing.ended(standings.standing_of(row), now, "The hub does not know it.")
    else:
        before = replace(standings.standing_of(row), state=State.WANTED, expires_at=None)
        said = f"{reason.rstrip('.')}." if reason else "the hub does not say why."
        after = renewing.after(before, Refused(said), now, random.random(), standings.rules())
    if not standings.unchanged(row).update(**standings.fields_of(after)):
        return True  # what it has said meanwhile stands
    if row.feed_id is not None:
        trust.tighten([row.feed_id], now)
    if after.state is State.DENIED:
        wanting.pass_over(row)
    return True


def _pending(token: str, topic: str, intent: str, now: datetime) -> QuerySet[Subscription]:
    return _of(token, topic).filter(intent=intent, asked_at__gt=now - PENDING)


def _of(token: str, topic: str) -> QuerySet[Subscription]:
    return Subscription.objects.filter(token=token, topic=topic, hub__kind=Kind.WEBSUB.value)
