"""Subscriptions at hubs, as tests want them in the database."""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from feeds import credentials
from feeds.hub_models import Hub, Subscription
from feeds.models import Feed
from feeds.push.leases import SubscriptionStatus

HUB = "https://hub.example.net/"
SECRET = "s3cret"


def hub(url: str = HUB, kind: str = "websub", **fields: Any) -> Hub:
    digest = sha256(f"{kind} {url}".encode()).hexdigest()
    return Hub.objects.get_or_create(digest=digest, defaults={"kind": kind, "url": url, **fields})[0]


def subscribed(feed: Feed, at: datetime, *, secret: str = SECRET, url: str = HUB, **fields: Any) -> Subscription:
    """In force since then, at a hub that signs; its token is “token-” and the feed's slug."""
    Feed.objects.filter(pk=feed.pk).update(offer_digest="offered")
    feed.refresh_from_db()
    known = {
        "offer_digest": "offered",
        "topic": feed.url,
        "token": f"token-{feed.slug}",
        "sealed_secret": credentials.seal_password(secret),
        "state": SubscriptionStatus.VERIFIED.value,
        "created_at": at,
        "asked_at": at,
        "verified_at": at,
        "expires_at": at + timedelta(days=10),
        "due_at": at + timedelta(days=8),
    }
    return Subscription.objects.create(feed=feed, hub=hub(url), **{**known, **fields})
