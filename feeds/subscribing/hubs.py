"""Asks hubs for subscriptions, or for their end (WebSub, 5). What they verify, the main instance answers."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from django.conf import settings

from resources.fetching import conf as fetch_conf
from resources.fetching.errors import UnreadableSealError
from resources.fetching.outcomes import Failed, Fetched, Hop, NotModified
from resources.fetching.requests import Fetch

from ..keeping import credentials
from ..pushing import websub
from ..pushing.discovering import Kind
from ..pushing.renewing import Answer, Awaited, Missed, Refused
from ..subscriptions import Subscription
from . import callback

SECRET_BYTES = 32
MOST_ANSWER_BYTES = 65_536
VERIFIED_WITHIN = timedelta(hours=1)
"""A hub that has not verified by then is asked again, then after twice as long each time."""

_WITHOUT_BODY = frozenset({301, 302, 303})
_NOT_NOW = frozenset({408, 425, 429})


def prepared(subscription: Subscription) -> Mapping[str, object]:
    """A secret, where there is none to be used: it stays the same as long as the subscription does."""
    feed_url = subscription.feed.url if subscription.feed else subscription.topic
    if not websub.may_be_signed(subscription.hub.url, feed_url):
        return {"sealed_secret": ""}
    try:
        is_there = bool(secret_of(subscription))
    except UnreadableSealError:  # its key is gone: the hub gets another
        is_there = False
    return {} if is_there else {"sealed_secret": credentials.sealed_password(secrets.token_urlsafe(SECRET_BYTES))}


def request(subscription: Subscription) -> Fetch:
    """Raises ValueError for what cannot be sent, and UnreadableSealError."""
    address = callback.url(Kind.WEBSUB.value, subscription.token)
    if subscription.intent == websub.UNSUBSCRIBE:
        body = websub.end(subscription.topic, address)
    else:
        lease = timedelta(days=settings.FEEDS_PUSH_LEASE_DAYS)
        body = websub.subscription(subscription.topic, address, secret_of(subscription), lease)
    return Fetch(
        subscription.hub.url,
        kind="hub",
        method="POST",
        body=body,
        headers={"Content-Type": websub.FORM},
        limits=replace(fetch_conf.fast_limits(), max_body_bytes=MOST_ANSWER_BYTES),
    )


def answer(subscription: Subscription, outcome: Fetched | NotModified | Failed) -> Answer:
    """What came of it. A hub that has taken it verifies it by itself."""
    if lost := [hop.status for hop in _hops(outcome) if hop.status in _WITHOUT_BODY]:
        return Missed(f"the hub redirects by {lost[0]}, which leaves the request behind.")
    match outcome:
        case Fetched():
            return Awaited(VERIFIED_WITHIN)
        case Failed(_, detail):
            said = f"{detail.rstrip('.')}."
            return Refused(said) if _refused(outcome) else Missed(said, is_open=_is_open(outcome))
    return Missed("it answered 304.")


def secret_of(subscription: Subscription) -> str:
    """Empty for none. Raises UnreadableSealError."""
    return credentials.unsealed(subscription.sealed_secret)


def _refused(outcome: Fetched | NotModified | Failed) -> bool:
    """Whether the hub has heard it, and does not want it."""
    status = outcome.status if isinstance(outcome, Failed) else None
    return status is not None and 400 <= status < 500 and status not in _NOT_NOW


def _is_open(failed: Failed) -> bool:
    """Whether the hub may have taken it: it was too slow for us, was cut off, or said more than is read."""
    return failed.status is None or failed.status < 300


def _hops(outcome: Fetched | NotModified | Failed) -> tuple[Hop, ...]:
    return outcome.hops if isinstance(outcome, Failed) else outcome.head.hops
