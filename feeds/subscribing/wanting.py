"""Which feeds are to be subscribed: those that offer it, that somebody reads, and that were updated of late."""

import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from ..deciding.standing import State as FeedState
from ..models import Entry, Feed
from ..pushing import discovering, renewing
from ..pushing.discovering import Kind, Offer
from ..pushing.renewing import ENDED_STATES, State
from ..subscriptions import Hub, Subscription
from . import standings

MOST_AT_ONCE = 500
"""Feeds that become subscribed in one pass."""
TOKEN_BYTES = 32
NOT_OFFERED = "Its feed does not offer this any more."
NOT_FETCHED = "Its feed is paused, gone or deleted."
EXPIRED = "It has expired."


def wanted(now: datetime) -> QuerySet[Feed]:
    """The feeds that are to be subscribed now. What is asked for with secrets is told to nobody."""
    since = now - timedelta(days=settings.FEEDS_PUSH_RECENT_DAYS)
    updated = Entry.objects.filter(feed=OuterRef("pk"), happened_at__gte=since)
    offering = Feed.objects.exclude(offer_digest="").filter(_is_fetched())
    readable = offering.filter(user="", sealed_password="", sealed_headers="")
    return readable.filter(Exists(updated), subscriber_count__gte=settings.FEEDS_PUSH_LEAST_SUBSCRIBERS)


def end_unwanted(now: datetime) -> None:
    """Ends what no feed offers any more, or a feed that is not fetched any more; and what has expired.

    Raises DatabaseError.
    """
    live = Subscription.objects.exclude(state__in=ENDED_STATES)
    fetched = Exists(Feed.objects.filter(_is_fetched(), pk=OuterRef("feed_id")))
    _end(live.filter(~fetched), now, NOT_FETCHED)
    _end(live.exclude(feed__offer_digest=F("offer_digest")), now, NOT_OFFERED)
    expired = live.filter(state=State.VERIFIED.value, expires_at__lte=now)
    _looked_up(expired).update(state=State.WANTED.value, reason=EXPIRED)


def begin_wanted(now: datetime) -> int:
    """Rows for feeds that are to be subscribed and are not, due at once. How many. Raises DatabaseError."""
    live = Subscription.objects.exclude(state__in=ENDED_STATES).filter(feed=OuterRef("pk"))
    feeds = list(wanted(now).filter(~Exists(live)).order_by("pk")[:MOST_AT_ONCE])
    offers = {feed.pk: offer for feed in feeds if (offer := _offer(feed)) is not None}
    if not offers:
        return 0
    with transaction.atomic():
        hubs = _hubs(offers.values())
        again = _in_force_again(offers, now)
        new = {feed_id: offer for feed_id, offer in offers.items() if feed_id not in again}
        rows = [_row(feed_id, offer, hubs[offer.hub_digest], now) for feed_id, offer in new.items()]
        Subscription.objects.bulk_create(rows, ignore_conflicts=True)
    return len(offers)


def end_one(subscription: Subscription, why: str, now: datetime) -> None:
    """Ends a subscription that is not asked for any more."""
    _end(Subscription.objects.filter(pk=subscription.pk), now, why)


def pass_over(subscription: Subscription) -> None:
    """Has another server asked that its feed offers, if there is one: this one was asked in vain.

    Raises DatabaseError.
    """
    rows = Feed.objects.only("said", "linked", "url", "offer_digest").filter(subscriptions=subscription)
    feed = rows.first()
    if feed is None:
        return
    linked = discovering.passing_over(feed.linked, subscription.hub.url)
    found = discovering.offer(feed.said, linked, feed.url)
    if found is not None and found.digest != feed.offer_digest:
        unchanged = Feed.objects.filter(pk=feed.pk, offer_digest=feed.offer_digest)
        unchanged.update(linked=linked, offer_digest=found.digest)


def prune(before: datetime) -> None:
    """Removes what ended before: until then its address answers that it is gone. And servers that nothing is asked of.

    Raises DatabaseError.
    """
    Subscription.objects.filter(ended_at__lt=before).delete()
    Hub.objects.filter(created_at__lt=before, subscriptions=None).delete()


def _is_fetched() -> Q:
    return Q(paused=False) & ~Q(state=FeedState.GONE.value)


def _end(rows: QuerySet[Subscription], now: datetime, why: str) -> None:
    """Hubs are told, if they have been asked; clouds cannot be, and forget by themselves."""
    found = _looked_up(rows)
    leaving = found.filter(hub__kind=Kind.WEBSUB.value, asked_at__isnull=False)
    leaving.update(state=State.LEAVING.value, intent="", failures=0, due_at=now, reason=why)
    others = found.exclude(state=State.LEAVING.value)
    others.update(state=State.ENDED.value, intent="", due_at=None, ended_at=now, reason=why)


def _looked_up(rows: QuerySet[Subscription]) -> QuerySet[Subscription]:
    """The same, by their ids, at most so many: on SQLite an update that looks for its rows keeps all others waiting."""
    ids = list(rows.values_list("pk", flat=True)[:MOST_AT_ONCE])
    return rows.filter(pk__in=ids)


def _offer(feed: Feed) -> Offer | None:
    """What it offers. Where its row says something else, that is put right: it would be in the way of others."""
    offer = discovering.offer(feed.said, feed.linked, feed.url)
    digest = offer.digest if offer else ""
    if digest != feed.offer_digest:
        Feed.objects.filter(pk=feed.pk, offer_digest=feed.offer_digest).update(offer_digest=digest)
        return None
    return offer


def _hubs(offers: Iterable[Offer]) -> dict[str, int]:
    """The rows of servers, by their digests."""
    named = {offer.hub_digest: offer for offer in offers}
    rows = [Hub(kind=offer.kind.value, url=offer.server, digest=digest) for digest, offer in named.items()]
    Hub.objects.bulk_create(rows, ignore_conflicts=True)
    return dict(Hub.objects.filter(digest__in=named).values_list("digest", "pk"))


def _in_force_again(offers: Mapping[int, Offer], now: datetime) -> set[int]:
    """The feeds whose subscription ended, and whose cloud knows it still: it is not asked for twice."""
    known = Subscription.objects.filter(hub__kind=Kind.RSSCLOUD.value, verified_at__isnull=False, expires_at__gt=now)
    ended = known.filter(feed__in=offers, state=State.ENDED.value).order_by("verified_at")
    latest = {row.feed_id: row for row in ended if row.feed_id and row.offer_digest == offers[row.feed_id].digest}
    for row in latest.values():
        assert row.verified_at is not None
        assert row.expires_at is not None
        before, lease = standings.standing_of(row), row.expires_at - row.verified_at
        stands = renewing.granted(before, lease, random.random(), standings.rules(), row.verified_at)
        fields = standings.fields_of(replace(stands, ended_at=None))
        standings.unchanged(row).update(**fields, created_at=now)  # what came between counts against nobody
    return {feed_id for feed_id in latest if feed_id is not None}


def _row(feed_id: int, offer: Offer, hub_id: int, now: datetime) -> Subscription:
    return Subscription(
        feed_id=feed_id,
        hub_id=hub_id,
        offer_digest=offer.digest,
        topic=offer.topic,
        procedure=offer.procedure[:_MOST_PROCEDURE],
        token=secrets.token_urlsafe(TOKEN_BYTES),
        due_at=now,
        reason="About to be asked for.",
        created_at=now,
    )


_MOST_PROCEDURE = 200
