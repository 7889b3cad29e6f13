"""The fetchers' task that asks hubs and clouds for subscriptions, and stores their answers.

The request's intent is stored before it is sent: servers verify it while the request is still open. The main
instance answers their verifications. Both protocols have the same three functions (`PushProtocol`; WebSub, 5, and
rssCloud).
"""

import logging
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import Error as DatabaseError

from resources.fetch import conf
from resources.fetch.http.messages import Fetched, FetchFailed, FetchRequest, NotModified, UnreadableSealError
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from .. import credentials
from ..hub_models import Subscription
from ..push import leases, rsscloud, websub
from ..push.kinds import PushKind
from ..push.leases import PushAnswer, RequestMissed, RequestRefused, SubscriptionStatus, VerificationAwaited
from ..push.offers import PushOffer
from . import subscribe

CLOUD_ACCEPT = "text/xml, application/xml;q=0.9, application/json;q=0.8"
SECRET_BYTES = 32
VERIFIED_WITHIN = timedelta(hours=1)
"""A hub that has not verified within this time is asked again, then after twice as long each time."""
OUTAGE_RETRY_SECONDS = 5.0
DUE_WITHIN = timedelta(minutes=10)
"""A subscription due later than this is not requested: it has been already."""
PASS_OVER_FAILURES = 3
"""The number of failed attempts after which another server is asked, if the feed names one."""

_BODYLESS_REDIRECTS = frozenset({301, 302, 303})
_TEMPORARY_STATUSES = frozenset({408, 425, 429})

_log = logging.getLogger("tarry.feeds")


def callback_url(subscription: Subscription) -> str:
    return f"{settings.PUBLIC_URL}/{subscription.hub.kind}/{subscription.token}"


def build_push_request(url: str, kind: str, body: bytes, headers: Mapping[str, str]) -> FetchRequest:
    """Raises ValueError if the request cannot be sent."""
    limits = replace(conf.fast_limits(), max_body_bytes=rsscloud.MAX_XMLRPC_BYTES)
    return FetchRequest(url, kind=kind, method="POST", body=body, headers=dict(headers), limits=limits)


def build_cloud_request(subscription: Subscription) -> FetchRequest:
    hub = subscription.hub
    offer = PushOffer(PushKind.RSSCLOUD, hub.url, subscription.topic, subscription.procedure)
    content_type, body = rsscloud.write_registration(offer, callback_url(subscription), subscription.way)
    return build_push_request(hub.url, "cloud", body, {"Content-Type": content_type, "Accept": CLOUD_ACCEPT})


def read_cloud_answer(subscription: Subscription, outcome: Fetched | NotModified | FetchFailed) -> PushAnswer:
    match outcome:
        case Fetched(_, body):
            ways = len(rsscloud.callback_ways(callback_url(subscription)))
            return rsscloud.read_registration_answer(body.read(), was_called=bool(subscription.procedure), ways=ways)
        case FetchFailed(_, detail):
            return RequestMissed(f"{detail.rstrip('.')}.")
    return RequestMissed("it answered 304.")


def prepare_hub_fields(subscription: Subscription) -> Mapping[str, object]:
    """A new secret, if there is none yet: it stays the same as long as the subscription does."""
    feed_url = subscription.feed.url if subscription.feed else subscription.topic
    if not websub.may_be_signed(subscription.hub.url, feed_url):
        return {"sealed_secret": ""}
    try:
        is_there = bool(credentials.unseal_secret(subscription.sealed_secret))
    except UnreadableSealError:  # its key is gone: the hub gets another
        is_there = False
    return {} if is_there else {"sealed_secret": credentials.seal_password(secrets.token_urlsafe(SECRET_BYTES))}


def build_hub_request(subscription: Subscription) -> FetchRequest:
    """Builds the request. Raises ValueError if it cannot be sent, and UnreadableSealError."""
    address = callback_url(subscription)
    if subscription.intent == websub.UNSUBSCRIBE:
        body = websub.write_unsubscription_form(subscription.topic, address)
    else:
        lease = timedelta(days=settings.FEEDS_PUSH_LEASE_DAYS)
        secret = credentials.unseal_secret(subscription.sealed_secret)
        body = websub.write_subscription_form(subscription.topic, address, secret, lease)
    return build_push_request(subscription.hub.url, "hub", body, {"Content-Type": websub.FORM_TYPE})


def read_hub_answer(subscription: Subscription, outcome: Fetched | NotModified | FetchFailed) -> PushAnswer:
    """Reads the outcome. A hub that has taken the request verifies it by itself."""
    hops = outcome.hops if isinstance(outcome, FetchFailed) else outcome.head.hops
    if lost := [hop.status for hop in hops if hop.status in _BODYLESS_REDIRECTS]:
        return RequestMissed(f"the hub redirects by {lost[0]}, which leaves the request behind.")
    match outcome:
        case Fetched():
            return VerificationAwaited(VERIFIED_WITHIN)
        case FetchFailed(_, detail, status=status):
            text = f"{detail.rstrip('.')}."
            if status is not None and 400 <= status < 500 and status not in _TEMPORARY_STATUSES:
                return RequestRefused(text)
            # A hub that was too slow, was cut off, or answered at too great length may have taken the request.
            return RequestMissed(text, is_open=status is None or status < 300)
    return RequestMissed("it answered 304.")


@dataclass(frozen=True, slots=True)
class PushProtocol:
    """The three steps of one protocol: `prepare` returns fields of the row that change before the request."""

    prepare: Callable[[Subscription], Mapping[str, object]]
    build: Callable[[Subscription], FetchRequest]
    read: Callable[[Subscription, Fetched | NotModified | FetchFailed], PushAnswer]


PROTOCOLS: Mapping[str, PushProtocol] = {
    PushKind.RSSCLOUD.value: PushProtocol(lambda _: {}, build_cloud_request, read_cloud_answer),
    PushKind.WEBSUB.value: PushProtocol(prepare_hub_fields, build_hub_request, read_hub_answer),
}


class AskHub:
    """The task `feeds.ask_hub`. Its arguments are the hub's URL and the subscription."""

    obeys_robots = False
    """The feed names the server for this purpose."""

    def identify(self, *arguments: Argument) -> str:
        """Returns the subscription: its request has a body of its own."""
        return str(arguments[1])

    def fetch(self, *arguments: Argument) -> FetchRequest | Mapping[str, Prepared]:
        """Builds the request; nothing if it is no longer needed. Raises PreparationError."""
        try:
            subscription, now = _load_subscription(arguments), datetime.now(UTC)
            if subscription is None or subscription.state == SubscriptionStatus.ENDED.value:
                return {}
            return {} if _is_in_force(subscription, now) else _begin_request(subscription, now)
        except DatabaseError as error:
            raise _outage_error() from error

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Stores the answer. Raises PreparationError if it cannot be stored."""
        try:
            subscription = _load_subscription(arguments)
            if subscription is not None and subscription.intent:  # else it was verified, denied or ended meanwhile
                answer = PROTOCOLS[subscription.hub.kind].read(subscription, outcome)
                settle_answer(subscription, answer, datetime.now(UTC))
        except DatabaseError as error:
            _log.warning("an answer of a hub could not be stored", extra={"error": str(error)})
            raise _outage_error() from error
        return {}


TASK = AskHub()


def settle_answer(subscription: Subscription, answer: PushAnswer, now: datetime) -> None:
    """Applies an answer to the subscription, unless its row has changed since. Raises DatabaseError."""
    before = subscribe.subscription_state(subscription)
    after = leases.apply_answer(before, answer, now, random.random(), subscribe.renewal_rules())
    if not subscribe.unchanged_rows(subscription).update(**subscribe.state_fields(after)):
        return
    is_missed = after.state is SubscriptionStatus.WANTED and after.failures >= PASS_OVER_FAILURES
    if is_missed or after.state is SubscriptionStatus.DENIED:
        subscribe.pass_over_hub(subscription)


def _is_in_force(subscription: Subscription, now: datetime) -> bool:
    """Tells whether the subscription is in force already: a killed fetcher's work is done again.

    Clocks may differ a little: a subscription due within DUE_WITHIN is due.
    """
    stands = subscribe.subscription_state(subscription)
    return stands.is_in_force(now) and stands.due_at is not None and stands.due_at > now + DUE_WITHIN


def _begin_request(subscription: Subscription, now: datetime) -> FetchRequest | Mapping[str, Prepared]:
    protocol = PROTOCOLS[subscription.hub.kind]
    is_leaving = subscription.state == SubscriptionStatus.LEAVING.value
    intent = websub.UNSUBSCRIBE if is_leaving else websub.SUBSCRIBE
    fields = {"intent": intent, "asked_at": now, **protocol.prepare(subscription)}
    Subscription.objects.filter(pk=subscription.pk).update(**fields)
    for name, value in fields.items():
        setattr(subscription, name, value)
    try:
        return protocol.build(subscription)
    except (ValueError, UnreadableSealError) as error:
        settle_answer(subscription, RequestMissed(f"{error}."), now)
        return {}


def _load_subscription(arguments: tuple[Argument, ...]) -> Subscription | None:
    return Subscription.objects.select_related("hub").filter(pk=int(arguments[1])).first()


def _outage_error() -> PreparationError:
    return PreparationError("The subscriptions cannot be read now.", status=503, retry_seconds=OUTAGE_RETRY_SECONDS)
