"""Subscriptions as tests want them in the database."""

from datetime import UTC, datetime, timedelta
from typing import Any

from feeds.hub_models import Hub, Subscription
from feeds.models import Feed
from feeds.push.kinds import PushKind
from feeds.push.leases import SubscriptionStatus
from feeds.push.offers import PushOffer

SERVER = "http://cloud.example:5337/pleaseNotify"
TOKEN = "a-token-that-nobody-guesses"


def subscription(of: Feed, kind: PushKind = PushKind.RSSCLOUD, **fields: Any) -> Subscription:
    """One that is in force since just now, for the feed's own address."""
    now = datetime.now(UTC)
    offer = PushOffer(kind, SERVER, of.url)
    known = {
        "hub": Hub.objects.get_or_create(kind=kind.value, url=SERVER, digest=offer.hub_digest)[0],
        "offer_digest": offer.digest,
        "topic": offer.topic,
        "token": TOKEN,
        "state": SubscriptionStatus.VERIFIED.value,
        "asked_at": now,
        "verified_at": now,
        "expires_at": now + timedelta(hours=25),
        "due_at": now + timedelta(hours=20),
    }
    return Subscription.objects.create(feed=of, **{**known, **fields})
