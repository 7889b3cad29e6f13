"""How feeds are told of changes, in words: by whom, how that stands, and how far it is relied on. Changes nothing."""

from datetime import datetime

from django.conf import settings

from resources import words

from ..models import Feed
from ..pushing import trusting
from ..pushing.renewing import ENDED_STATES
from ..subscriptions import Hub, Subscription
from . import trust


def of_feed(feed: Feed, now: datetime) -> list[str]:
    """Sentences about the feed, the most important first."""
    live = Subscription.objects.filter(feed=feed).exclude(state__in=ENDED_STATES).select_related("hub").first()
    if live is None:
        return [_unsubscribed(feed)]
    said = [f"By {live.hub.get_kind_display()}, {live.hub.url}: {live.state}. {live.reason}", of_subscription(live)]
    if feed.pushed_at is not None:
        said.append(f"Last push {words.ago(feed.pushed_at, now)}.")
    return said


def of_subscription(subscription: Subscription) -> str:
    """Whether its feed is polled less often, and why or why not."""
    return trusting.words_of_feed(trust.record_of(subscription), trust.score_of(subscription.hub))


def of_hub(hub: Hub) -> str:
    return trusting.words_of_hub(trust.score_of(hub))


def _unsubscribed(feed: Feed) -> str:
    if not feed.offer_digest:
        return "No: it announces neither hub nor cloud."
    if not settings.FEEDS_PUSH:
        return "No: it announces a hub or a cloud, but this site subscribes to none (FEEDS_PUSH)."
    return (
        "No: it announces a hub or a cloud, and is not subscribed, as nobody reads it, or it has been quiet for long."
    )
