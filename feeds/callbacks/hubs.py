"""What hubs call (WebSub): verifications, denials, deliveries. A delivery is kept and flags the feed, nothing more."""

import logging
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from resources.fetching.errors import UnreadableSealError
from retry import responses
from retry.errors import StoreUnavailable

from ..keeping import credentials, deliveries, pushes
from ..keeping.deliveries import Delivery
from ..keeping.pushes import Pushed, Subscribed
from ..pushing import signatures, websub
from ..pushing.discovering import Kind
from ..pushing.renewing import ENDED_STATES, State
from ..pushing.websub import Denial, Question
from ..subscribing import verifying
from . import debouncing
from .refusing import NO_SUBSCRIPTION, RefusedError, body_of, callback, nameable, text

NO_FEEDS = ("application/x-www-form-urlencoded", "multipart/")
MOST_TYPE_CHARACTERS = 200

_log = logging.getLogger("tarry.feeds")


@callback("GET", "POST")
def hub(request: HttpRequest, token: str) -> HttpResponse:
    """`/websub/<token>`: what the hub asks or says of the subscription by GET; what it delivers by POST."""
    if request.method == "POST":
        return _deliver(request, token, timezone.now())
    return _hear(websub.heard(request.GET.dict()), token, timezone.now())


def _hear(heard: Question | Denial | None, token: str, now: datetime) -> HttpResponse:
    nameable(heard.topic if heard else "")
    match heard:
        case Question(websub.SUBSCRIBE, topic, challenge, lease):
            is_right = verifying.begin(token, topic, websub.granted(lease), now)
        case Question(_, topic, challenge, _):
            is_right = verifying.end(token, topic, now)
        case Denial(topic, reason):
            challenge, is_right = "", verifying.deny(token, topic, reason, now)
        case None:
            raise RefusedError(400, "A hub says `hub.mode`, `hub.topic`, and `hub.challenge` where it asks.")
    if not is_right:
        raise RefusedError(404, NO_SUBSCRIPTION)
    return text(challenge)


def _deliver(request: HttpRequest, token: str, now: datetime) -> HttpResponse:
    """What is not signed with the secret of the subscription is refused; without a secret it is a ping."""
    if (request.content_type or "").lower().startswith(NO_FEEDS):
        raise RefusedError(415, "A delivery is what is at the topic, with its own Content-Type.")
    subscription = _subscription(token, now)
    body = body_of(request, (), settings.FEEDS_PUSH_MAX_BYTES)
    secret = _secret(subscription)
    if secret and not signatures.holds(request.headers.get(signatures.HEADER, ""), body, secret):
        raise RefusedError(403, f"{signatures.HEADER} is missing, or not that of this body.")
    if not secret or not body:
        return _ping(token, subscription, now)
    try:
        return _keep(subscription, Delivery(body, _content_type(request), now))
    except StoreUnavailable:
        return responses.not_now("Deliveries cannot be taken now.")


def _subscription(token: str, now: datetime) -> Subscribed:
    """Raises RefusedError where nothing is taken from it."""
    found = pushes.subscription(Kind.WEBSUB, token, now)
    if found is None:
        raise RefusedError(404, NO_SUBSCRIPTION)
    if found.state in ENDED_STATES or not found.is_fetched:
        raise RefusedError(410, "This subscription has ended.")
    if not found.is_in_force or found.state == State.DENIED.value:
        raise RefusedError(404, NO_SUBSCRIPTION)
    return found


def _secret(subscription: Subscribed) -> str:
    try:
        return credentials.unsealed(subscription.sealed_secret)
    except UnreadableSealError as error:  # the hub gets another when the subscription is renewed
        raise RefusedError(403, "The secret of this subscription is not known any more.") from error


def _ping(token: str, subscription: Subscribed, now: datetime) -> HttpResponse:
    debouncing.ask_for_scan(pushes.push(Kind.WEBSUB, token, subscription.topic, now))
    return text("")


def _keep(subscription: Subscribed, delivery: Delivery) -> HttpResponse:
    """What came before changes nothing: hubs repeat what they believe lost. Raises StoreUnavailable."""
    assert subscription.feed_id is not None
    if deliveries.came_before(subscription.pk, delivery):
        return text("")
    try:
        deliveries.keep(subscription.feed_id, delivery)
    except StoreUnavailable as error:  # then the origin is asked
        _log.warning("a delivery is not kept", extra={"feed": subscription.feed_id, "error": str(error)})
    pushes.delivered(subscription.feed_id, delivery.received_at)
    deliveries.remember(subscription.pk, delivery)
    debouncing.ask_for_scan(Pushed.FLAGGED)
    return text("")


def _content_type(request: HttpRequest) -> str:
    return request.headers.get("Content-Type", "")[:MOST_TYPE_CHARACTERS]
