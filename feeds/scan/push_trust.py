"""How far hubs and clouds are trusted to tell of changes: noted with each look at a feed, on rows."""

import random
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Value
from django.db.models.functions import Least

from ..models import Feed
from ..pushing import trusting
from ..pushing.renewing import State
from ..pushing.trusting import Look, Record, Score, Verdict
from ..subscriptions import Hub, Subscription

WITHIN = timedelta(hours=1)
"""In which feeds are checked again of which nobody tells any more: not all of them at once."""
PARTS = 12
_SCORED = (Verdict.TOLD, Verdict.MISSED, Verdict.LATE)


@dataclass(frozen=True, slots=True)
class Reliance:
    """Whether a feed need not be polled often from now on; and whether it was told of, and nothing was there yet."""

    is_relied_on: bool = False
    told_in_vain: bool = False


def note(feed: Feed, began_at: datetime, *, has_news: bool, has_changed: bool) -> Reliance:
    """Notes what a look at the feed shows, that began then.

    `feed` is as it was before the look. In the transaction that stores what was found. Raises DatabaseError.
    """
    subscription = _subscription(feed)
    if subscription is None:
        return Reliance()
    pushed_at = Feed.objects.values_list("pushed_at", flat=True).get(pk=feed.pk)
    since = subscription.created_at if subscription.verified_at else None
    record, score = record_of(subscription), score_of(subscription.hub)
    look = Look(began_at, has_news, feed.fetch_began_at, pushed_at, since, has_changed)
    found, is_in_force = trusting.verdict(record, look), _is_in_force(subscription, began_at)
    if found is not Verdict.NOTHING:
        record = trusting.recorded(record, found, began_at)
        Subscription.objects.filter(pk=subscription.pk).update(**_fields(record))
    if found in _SCORED and (is_in_force or found is not Verdict.MISSED):  # where it was not asked to, no hub tells
        score = _score(subscription.hub_id, found, pushed_at, began_at)
    return Reliance(is_in_force and trusting.is_relied_on(record, score), found is Verdict.VAIN)


def tighten(feeds: Collection[int], now: datetime) -> None:
    """These are polled again as if nobody told of their changes, the first time soon."""
    ids = sorted(feeds)
    for part in range(PARTS):
        rows = Feed.objects.filter(pk__in=ids[part::PARTS], is_pushed=True)
        rows.update(**tightened(now, (part + random.random()) / PARTS))


def tightened(now: datetime, luck: float) -> dict[str, Any]:
    """Fields of a feed that is polled again as if nobody told of its changes. `luck`, from 0 to 1: how soon."""
    return {"is_pushed": False, "next_check_at": Least(F("next_check_at"), Value(now + WITHIN * luck))}


def tighten_untold(now: datetime) -> None:
    """The same for all whose subscription is not in force any more, or whose hub is not trusted any more.

    Raises DatabaseError.
    """
    in_force = Subscription.objects.filter(feed=OuterRef("pk"), state=State.VERIFIED.value, expires_at__gt=now)
    told = in_force.filter(hub__trusted_since__isnull=False)
    lost = Feed.objects.filter(~Exists(told), is_pushed=True).values_list("pk", flat=True)
    if found := list(lost):
        tighten(found, now)


def record_of(subscription: Subscription) -> Record:
    return Record(
        told=subscription.arrived,
        missed=subscription.missed,
        in_a_row=subscription.in_a_row,
        before_miss=subscription.before_miss,
        missed_at=subscription.missed_at,
        vain_at=subscription.vain_at,
    )


def score_of(hub: Hub) -> Score:
    return Score(hub.arrived, hub.missed, hub.share)


def _is_in_force(subscription: Subscription, at: datetime) -> bool:
    expires_at = subscription.expires_at
    return subscription.state == State.VERIFIED.value and expires_at is not None and expires_at > at


def _subscription(feed: Feed) -> Subscription | None:
    """That of a feed that may have one. Most have none, and are not asked for it."""
    if not feed.offer_digest:
        return None
    live = Subscription.objects.filter(feed=feed, ended_at=None).exclude(state=State.LEAVING.value)
    return live.select_related("hub").first()


def _fields(record: Record) -> dict[str, object]:
    fields = asdict(record)
    return {"arrived": fields.pop("told"), **fields}


def _score(hub_id: int, found: Verdict, pushed_at: datetime | None, now: datetime) -> Score:
    """The hub's score with this in it."""
    hub = Hub.objects.select_for_update().get(pk=hub_id)
    before, after = score_of(hub), trusting.scored(score_of(hub), found)
    was_trusted, is_trusted = trusting.is_trusted(before), trusting.is_trusted(after)
    fields: dict[str, object] = {"arrived": after.told, "missed": after.missed, "share": after.share}
    if found is not Verdict.MISSED:
        fields |= {"first_push_at": hub.first_push_at or pushed_at, "last_push_at": pushed_at}
    if was_trusted != is_trusted:
        fields["trusted_since"] = now if is_trusted else None
    Hub.objects.filter(pk=hub_id).update(**fields)
    return after
