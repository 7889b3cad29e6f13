"""Records, after each fetch, whether the hub or cloud of the feed announced the news first."""

import random
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Value
from django.db.models.functions import Least

from ..hub_models import Hub, Subscription
from ..models import Feed
from ..push import trust
from ..push.leases import SubscriptionStatus
from ..push.trust import FeedLook, HubScore, PushRecord, PushVerdict

TIGHTENED_WITHIN = timedelta(hours=1)
"""Time in which feeds are checked after their hub lost trust: not all of them at once."""
TIGHTENING_PARTS = 12
_SCORED_VERDICTS = (PushVerdict.TOLD, PushVerdict.MISSED, PushVerdict.LATE)


@dataclass(frozen=True, slots=True)
class Reliance:
    """A look's result: the feed may be polled less often; it was announced, but nothing was there yet."""

    is_relied_on: bool = False
    told_in_vain: bool = False


def note_look(feed: Feed, began_at: datetime, *, has_news: bool, has_changed: bool) -> Reliance:
    """Notes the result of a look at the feed that began then.

    `feed` is as it was before the look. Call it in the transaction that stores the result. Raises DatabaseError.
    """
    subscription = _live_subscription(feed)
    if subscription is None:
        return Reliance()
    pushed_at = Feed.objects.values_list("pushed_at", flat=True).get(pk=feed.pk)
    since = subscription.created_at if subscription.verified_at else None
    record, score = push_record(subscription), hub_score(subscription.hub)
    look = FeedLook(began_at, has_news, feed.fetch_began_at, pushed_at, since, has_changed)
    found, is_in_force = trust.judge_look(record, look), _is_in_force(subscription, began_at)
    if found is not PushVerdict.NOTHING:
        record = trust.update_record(record, found, began_at)
        Subscription.objects.filter(pk=subscription.pk).update(**asdict(record))
    # A hub without subscription sends nothing: news that it misses do not count against it.
    if found in _SCORED_VERDICTS and (is_in_force or found is not PushVerdict.MISSED):
        score = _score_hub(subscription.hub_id, found, pushed_at, began_at)
    return Reliance(is_in_force and trust.is_relied_on(record, score), found is PushVerdict.VAIN)


def tighten_polling(feeds: Collection[int], now: datetime) -> None:
    """Polls these feeds again as if they had no hub, the first time soon."""
    ids = sorted(feeds)
    for part in range(TIGHTENING_PARTS):
        rows = Feed.objects.filter(pk__in=ids[part::TIGHTENING_PARTS], is_pushed=True)
        rows.update(**build_tightening_fields(now, (part + random.random()) / TIGHTENING_PARTS))


def build_tightening_fields(now: datetime, luck: float) -> dict[str, Any]:
    """Fields of a feed that is polled again as if it had no hub. `luck`, from 0 to 1: how soon."""
    return {"is_pushed": False, "next_check_at": Least(F("next_check_at"), Value(now + TIGHTENED_WITHIN * luck))}


def tighten_untrusted(now: datetime) -> None:
    """Polls all feeds again whose subscription is no longer in force, or whose hub is no longer trusted.

    Raises DatabaseError.
    """
    verified = Subscription.objects.filter(feed=OuterRef("pk"), state=SubscriptionStatus.VERIFIED.value)
    trusted = verified.filter(expires_at__gt=now, hub__trusted_since__isnull=False)
    if lost := list(Feed.objects.filter(~Exists(trusted), is_pushed=True).values_list("pk", flat=True)):
        tighten_polling(lost, now)


def push_record(subscription: Subscription) -> PushRecord:
    return PushRecord(**{each.name: getattr(subscription, each.name) for each in fields(PushRecord)})


def hub_score(hub: Hub) -> HubScore:
    return HubScore(hub.arrived, hub.missed, hub.share)


def _is_in_force(subscription: Subscription, at: datetime) -> bool:
    expires_at = subscription.expires_at
    return subscription.state == SubscriptionStatus.VERIFIED.value and expires_at is not None and expires_at > at


def _live_subscription(feed: Feed) -> Subscription | None:
    """Returns the feed's live subscription. Most feeds have no offer, and need no query."""
    if not feed.offer_digest:
        return None
    live = Subscription.objects.filter(feed=feed, ended_at=None).exclude(state=SubscriptionStatus.LEAVING.value)
    return live.select_related("hub").first()


def _score_hub(hub_id: int, found: PushVerdict, pushed_at: datetime | None, now: datetime) -> HubScore:
    hub = Hub.objects.select_for_update().get(pk=hub_id)
    before, after = hub_score(hub), trust.update_score(hub_score(hub), found)
    was_trusted, is_trusted = trust.is_trusted(before), trust.is_trusted(after)
    changed: dict[str, object] = asdict(after)
    if found is not PushVerdict.MISSED:
        changed |= {"first_push_at": hub.first_push_at or pushed_at, "last_push_at": pushed_at}
    if was_trusted != is_trusted:
        changed["trusted_since"] = now if is_trusted else None
    Hub.objects.filter(pk=hub_id).update(**changed)
    return after
