"""Asks clouds for subscriptions (rssCloud). What they verify meanwhile, the main instance answers."""

from collections.abc import Mapping
from dataclasses import replace

from resources.fetching import conf as fetch_conf
from resources.fetching.outcomes import Failed, Fetched, NotModified
from resources.fetching.requests import Fetch

from ..pushing import rsscloud
from ..pushing.discovering import Kind, Offer
from ..pushing.renewing import Answer, Missed
from ..pushing.xmlrpc import MOST_BYTES
from ..subscriptions import Subscription
from . import callback

ACCEPT = "text/xml, application/xml;q=0.9, application/json;q=0.8"


def prepared(subscription: Subscription) -> Mapping[str, object]:
    return {}


def request(subscription: Subscription) -> Fetch:
    """Raises ValueError for what cannot be sent."""
    hub = subscription.hub
    offer = Offer(Kind.RSSCLOUD, hub.url, subscription.topic, subscription.procedure)
    asked = rsscloud.request(offer, _callback(subscription), subscription.way)
    return Fetch(
        hub.url,
        kind="cloud",
        method="POST",
        body=asked.body,
        headers={"Content-Type": asked.content_type, "Accept": ACCEPT},
        limits=replace(fetch_conf.fast_limits(), max_body_bytes=MOST_BYTES),
    )


def answer(subscription: Subscription, outcome: Fetched | NotModified | Failed) -> Answer:
    match outcome:
        case Fetched(_, body):
            ways = len(rsscloud.ways(_callback(subscription)))
            return rsscloud.answer(body.read(), was_called=bool(subscription.procedure), ways=ways)
        case Failed(_, detail):
            return Missed(f"{detail.rstrip('.')}.")
    return Missed("it answered 304.")


def _callback(subscription: Subscription) -> str:
    return callback.url(Kind.RSSCLOUD.value, subscription.token)
