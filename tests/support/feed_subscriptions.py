"""Subscriptions as tests want them in the database."""

from datetime import UTC, datetime, timedelta
from typing import Any

from feeds.models import Feed
from feeds.pushing.discovering import Kind, Offer
from feeds.pushing.renewing import State
from feeds.subscriptions import Hub, Subscription

SERVER = "http://cloud.example:5337/pleaseNotify"
TOKEN = "a-token-that-nobody-guesses"


def subscription(of: Feed, kind: Kind = Kind.RSSCLOUD, **fields: Any) -> Subscription:
    """One that is in force since just now, for the feed's own address."""
    now = datetime.now(UTC)
    offer = Offer(kind, SERVER, of.url)
    known = {
        "hub": Hub.objects.get_or_create(kind=kind.value, url=SERVER, digest=offer.hub_digest)[0],
        "offer_digest": offer.digest,
        "topic": offer.topic,
        "token": TOKEN,
        "state": State.VERIFIED.value,
        "asked_at": now,
        "verified_at": now,
        "expires_at": now + timedelta(hours=25),
        "due_at": now + timedelta(hours=20),
    }
    return Subscription.objects.create(feed=of, **{**known, **fields})
