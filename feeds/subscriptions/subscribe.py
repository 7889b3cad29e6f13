"""Begins and ends subscriptions, and stores the hubs' verifications and denials.

Feeds are subscribed if they offer it, have subscribers, and were updated lately. Only requests made by this site
are confirmed (WebSub, 5.3).
"""

import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from .. import followers
from ..hub_models import Hub, Subscription
from ..models import Entry, Feed
from ..push import leases, offers, websub
from ..push.kinds import PushKind
from ..push.leases import ENDED_STATES, RenewalRules, RequestRefused, SubscriptionState, SubscriptionStatus
from ..push.offers import PushOffer
from ..scan import push_trust
from ..schedule.state import FeedStatus

_STATE_FIELDS = tuple(field.name for field in fields(SubscriptionState))


def subscription_state(row: Subscription) -> SubscriptionState:
    held = {name: getattr(row, name) for name in _STATE_FIELDS}
    return SubscriptionState(**{**held, "state": SubscriptionStatus(row.state)})


def state_fields(current: SubscriptionState) -> dict[str, Any]:
    return {**{name: getattr(current, name) for name in _STATE_FIELDS}, "state": current.state.value}


def unchanged_rows(row: Subscription) -> QuerySet[Subscription]:
    """The row, unless it was asked for, verified, denied or ended since it was read."""
    asked = {"asked_at": row.asked_at, "intent": row.intent}
    return Subscription.objects.filter(pk=row.pk, state=row.state, verified_at=row.verified_at, **asked)


def renewal_rules() -> RenewalRules:
    return RenewalRules(
        renew_after=timedelta(hours=settings.FEEDS_PUSH_RENEW_HOURS),
        spread=timedelta(hours=settings.FEEDS_PUSH_SPREAD_HOURS),
    )


MAX_ROWS_PER_PASS = 500
TOKEN_BYTES = 32
_MAX_PROCEDURE_CHARACTERS = 200
NOT_OFFERED_REASON = "The feed no longer offers it."
NOT_FETCHED_REASON = "The feed is paused, gone or deleted."
EXPIRED_REASON = "Expired."


def wanted_feeds(now: datetime) -> QuerySet[Feed]:
    """The feeds to subscribe now. Feeds with passwords or headers of their own are named to no hub."""
    since = now - timedelta(days=settings.FEEDS_PUSH_RECENT_DAYS)
    updated = Entry.objects.filter(feed=OuterRef("pk"), happened_at__gte=since)
    offering = Feed.objects.exclude(offer_digest="").filter(_is_fetched())
    readable = offering.filter(Exists(updated), user="", sealed_password="", sealed_headers="")
    return followers.with_subscribers(readable).filter(subscribers__gte=settings.FEEDS_PUSH_LEAST_SUBSCRIBERS)


def end_unwanted_subscriptions(now: datetime) -> None:
    """Ends subscriptions that their feed no longer offers, or whose feed is no longer fetched.

    Expired ones are wanted again. Raises DatabaseError.
    """
    live = Subscription.objects.exclude(state__in=ENDED_STATES)
    fetched = Exists(Feed.objects.filter(_is_fetched(), pk=OuterRef("feed_id")))
    _end_rows(live.filter(~fetched), now, NOT_FETCHED_REASON)
    _end_rows(live.exclude(feed__offer_digest=F("offer_digest")), now, NOT_OFFERED_REASON)
    expired = live.filter(state=SubscriptionStatus.VERIFIED.value, expires_at__lte=now)
    _picked_rows(expired).update(state=SubscriptionStatus.WANTED.value, reason=EXPIRED_REASON)


def begin_wanted_subscriptions(now: datetime) -> int:
    """Adds rows, due at once, for feeds to subscribe that have none; returns their number. Raises DatabaseError."""
    live = Subscription.objects.exclude(state__in=ENDED_STATES).filter(feed=OuterRef("pk"))
    feeds = list(wanted_feeds(now).filter(~Exists(live)).order_by("pk")[:MAX_ROWS_PER_PASS])
    offers = {feed.pk: offer for feed in feeds if (offer := _checked_offer(feed)) is not None}
    if not offers:
        return 0
    with transaction.atomic():
        hubs = _ensure_hubs(offers.values())
        again = _revive_cloud_subscriptions(offers, now)
        new = {feed_id: offer for feed_id, offer in offers.items() if feed_id not in again}
        rows = [_new_subscription(feed_id, offer, hubs[offer.hub_digest], now) for feed_id, offer in new.items()]
        Subscription.objects.bulk_create(rows, ignore_conflicts=True)
    return len(offers)


def end_subscription(subscription: Subscription, why: str, now: datetime) -> None:
    _end_rows(Subscription.objects.filter(pk=subscription.pk), now, why)


def pass_over_hub(subscription: Subscription) -> None:
    """Chooses another server that the feed offers, if there is one: this one was asked in vain.

    Raises DatabaseError.
    """
    feed = Feed.objects.only("said", "linked", "url", "offer_digest").filter(subscriptions=subscription).first()
    if feed is None:
        return
    linked = offers.pass_over_server(feed.linked, subscription.hub.url)
    found = offers.find_offer(feed.said, linked, feed.url)
    if found is not None and found.digest != feed.offer_digest:
        unchanged = Feed.objects.filter(pk=feed.pk, offer_digest=feed.offer_digest)
        unchanged.update(linked=linked, offer_digest=found.digest)


def prune_subscriptions(before: datetime) -> None:
    """Removes subscriptions ended before then, whose callbacks answered that they are gone, and servers without any.

    Raises DatabaseError.
    """
    Subscription.objects.filter(ended_at__lt=before).delete()
    Hub.objects.filter(created_at__lt=before, subscriptions=None).delete()


def _is_fetched() -> Q:
    return Q(paused=False) & ~Q(state=FeedStatus.GONE.value)


def _end_rows(rows: QuerySet[Subscription], now: datetime, why: str) -> None:
    """Ends subscriptions. Hubs that were asked are told; clouds cannot be told, and forget by themselves."""
    found = _picked_rows(rows)
    leaving = found.filter(hub__kind=PushKind.WEBSUB.value, asked_at__isnull=False)
    leaving.update(state=SubscriptionStatus.LEAVING.value, intent="", failures=0, due_at=now, reason=why)
    others = found.exclude(state=SubscriptionStatus.LEAVING.value)
    others.update(state=SubscriptionStatus.ENDED.value, intent="", due_at=None, ended_at=now, reason=why)


def _picked_rows(rows: QuerySet[Subscription]) -> QuerySet[Subscription]:
    """The rows by their ids, MAX_ROWS_PER_PASS at most: on SQLite an update with a slow query blocks all others."""
    ids = list(rows.values_list("pk", flat=True)[:MAX_ROWS_PER_PASS])
    return rows.filter(pk__in=ids)


def _checked_offer(feed: Feed) -> PushOffer | None:
    """The feed's offer; None if its row has another digest. That is corrected: it would be in the way of others."""
    offer = offers.find_offer(feed.said, feed.linked, feed.url)
    digest = offer.digest if offer else ""
    if digest != feed.offer_digest:
        Feed.objects.filter(pk=feed.pk, offer_digest=feed.offer_digest).update(offer_digest=digest)
        return None
    return offer


def _ensure_hubs(offers: Iterable[PushOffer]) -> dict[str, int]:
    """The ids of the servers' rows, by their digests; missing ones are added."""
    named = {offer.hub_digest: offer for offer in offers}
    rows = [Hub(kind=offer.kind.value, url=offer.server, digest=digest) for digest, offer in named.items()]
    Hub.objects.bulk_create(rows, ignore_conflicts=True)
    return dict(Hub.objects.filter(digest__in=named).values_list("digest", "pk"))


def _revive_cloud_subscriptions(offers: Mapping[int, PushOffer], now: datetime) -> set[int]:
    """Revives ended subscriptions that their cloud still knows: it is not asked twice. Returns their feeds."""
    known = Subscription.objects.filter(hub__kind=PushKind.RSSCLOUD.value, feed__in=offers, expires_at__gt=now)
    ended = known.filter(verified_at__isnull=False, state=SubscriptionStatus.ENDED.value).order_by("verified_at")
    latest = {row.feed_id: row for row in ended if row.feed_id and row.offer_digest == offers[row.feed_id].digest}
    for row in latest.values():
        assert row.verified_at is not None
        assert row.expires_at is not None
        before, lease = subscription_state(row), row.expires_at - row.verified_at
        stands = leases.mark_granted(before, lease, random.random(), renewal_rules(), row.verified_at)
        fields = state_fields(replace(stands, ended_at=None))
        unchanged_rows(row).update(**fields, created_at=now)  # the time between counts against no hub
    return {feed_id for feed_id in latest if feed_id is not None}


def _new_subscription(feed_id: int, offer: PushOffer, hub_id: int, now: datetime) -> Subscription:
    return Subscription(
        feed_id=feed_id,
        hub_id=hub_id,
        offer_digest=offer.digest,
        topic=offer.topic,
        procedure=offer.procedure[:_MAX_PROCEDURE_CHARACTERS],
        token=secrets.token_urlsafe(TOKEN_BYTES),
        due_at=now,
        reason="Not requested yet.",
        created_at=now,
    )


VERIFIABLE_FOR = timedelta(days=1)
"""The time after a request in which a hub may verify it: some have queues."""

_GRANTED_FIELDS = ("intent", "failures", "reason", "verified_at", "expires_at", "due_at")


def confirm_subscription(token: str, topic: str, lease: timedelta, now: datetime) -> bool:
    """Puts a requested subscription in force for the lease. A forged call writes nothing. Raises DatabaseError."""
    granted = asdict(leases.mark_granted(SubscriptionState(), lease, random.random(), renewal_rules(), now))
    fields = {**{name: granted[name] for name in _GRANTED_FIELDS}, "state": SubscriptionStatus.VERIFIED.value}
    rows = _pending_rows(token, topic, websub.SUBSCRIBE, now).filter(feed__isnull=False).exclude(state__in=ENDED_STATES)
    return rows.exists() and bool(rows.update(**fields))


def confirm_unsubscription(token: str, topic: str, now: datetime) -> bool:
    """Ends a subscription if that was requested. A forged call writes nothing. Raises DatabaseError."""
    fields = state_fields(leases.mark_ended(SubscriptionState(), now, "Unsubscribed."))
    ended = {name: fields[name] for name in ("state", "intent", "due_at", "ended_at", "reason")}
    rows = _pending_rows(token, topic, websub.UNSUBSCRIBE, now).exclude(state=SubscriptionStatus.ENDED.value)
    return rows.exists() and bool(rows.update(**ended))


def deny_subscription(token: str, topic: str, reason: str, now: datetime) -> bool:
    """Stores a hub's denial: the feed is polled as before. Raises DatabaseError."""
    asked = _rows_of(token, topic).filter(asked_at__isnull=False).exclude(state=SubscriptionStatus.ENDED.value)
    row = asked.select_related("hub").first()
    if row is None:
        return False
    if row.state == SubscriptionStatus.LEAVING.value:
        after = leases.mark_ended(subscription_state(row), now, "The hub does not know it.")
    else:
        before = replace(subscription_state(row), state=SubscriptionStatus.WANTED, expires_at=None)
        text = f"{reason.rstrip('.')}." if reason else "the hub does not say why."
        after = leases.apply_answer(before, RequestRefused(text), now, random.random(), renewal_rules())
    if not unchanged_rows(row).update(**state_fields(after)):
        return True  # the hub has called meanwhile, and that counts
    if row.feed_id is not None:
        push_trust.tighten_polling([row.feed_id], now)
    if after.state is SubscriptionStatus.DENIED:
        pass_over_hub(row)
    return True


def _pending_rows(token: str, topic: str, intent: str, now: datetime) -> QuerySet[Subscription]:
    return _rows_of(token, topic).filter(intent=intent, asked_at__gt=now - VERIFIABLE_FOR)


def _rows_of(token: str, topic: str) -> QuerySet[Subscription]:
    return Subscription.objects.filter(token=token, topic=topic, hub__kind=PushKind.WEBSUB.value)
