"""The views that hubs (WebSub) and clouds (rssCloud) call: verifications, denials, pings and deliveries.

A ping flags the feed, and nothing more; a delivery is kept and flags the feed. Malformed requests are refused
before anything is looked up. Hundreds of pings at once cause one scan a moment later: a thread asks for it, so that
no request waits. If it dies with its process, the next scan by the clock makes up for it.
"""

import logging
import time
from collections.abc import Callable, Collection
from datetime import datetime
from functools import wraps
from threading import Lock, Timer
from urllib.parse import parse_qs

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from resources import database
from resources.fetch.http.messages import UnreadableSealError
from retry import responses
from retry.errors import StoreUnavailable

from .. import credentials, feed_rows
from ..errors import FeedError
from ..push import rsscloud, websub
from ..push.kinds import PushKind
from ..push.leases import ENDED_STATES, SubscriptionStatus
from ..push.rsscloud import FORM_TYPE, XML_TYPE
from ..push.websub import HubDenial, HubQuestion
from ..scan import deliveries
from ..scan.deliveries import Delivery
from . import pings, subscribe
from .pings import CallbackSubscription, PingResult

BYPASS_STATUS = "Tarry; fwd=bypass"
NO_SUBSCRIPTION = "There is no such subscription."
NOT_FEED_TYPES = ("application/x-www-form-urlencoded", "multipart/")
MAX_TYPE_CHARACTERS = 200

_log = logging.getLogger("tarry.feeds")


class CallbackRefusedError(FeedError):
    """The request is refused. Its text is for the sender."""

    def __init__(self, status: int, detail: str, **fields: str) -> None:
        super().__init__(detail)
        self.status, self.fields = status, fields


CallbackView = Callable[[HttpRequest, str], HttpResponse]


def callback_view(view: CallbackView) -> CallbackView:
    """Decorates a view that hubs call by GET and POST, and no browser does: errors become problem answers."""

    @csrf_exempt
    @wraps(view)
    @database.answer_outages
    def answered(request: HttpRequest, token: str) -> HttpResponse:
        if request.method not in {"GET", "POST"}:
            error = CallbackRefusedError(405, "Only GET and POST are allowed.", Allow="GET, POST")
            return refusal_response(error)
        try:
            return view(request, check_name(token))
        except CallbackRefusedError as error:
            return refusal_response(error)

    return answered


def check_name(name: str) -> str:
    """Returns the name. Raises CallbackRefusedError for one that databases cannot hold: nothing has that name."""
    if "\0" in name:
        raise CallbackRefusedError(404, NO_SUBSCRIPTION)
    return name


def refusal_response(error: CallbackRefusedError) -> HttpResponse:
    response = responses.problem_response(error.status, str(error), cache_status=BYPASS_STATUS)
    for name, value in error.fields.items():
        response[name] = value
    return response


def text_response(body: str | bytes, content_type: str = "text/plain; charset=utf-8") -> HttpResponse:
    """Answers 200 with this text, which no cache keeps, and no browser takes for another type."""
    fields = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return HttpResponse(body, content_type=content_type, headers=fields)


def read_body(request: HttpRequest, content_types: Collection[str], most_bytes: int) -> bytes:
    """Reads the body up to `most_bytes`. Empty types: any. Raises CallbackRefusedError."""
    if content_types and (request.content_type or "").lower() not in content_types:
        raise CallbackRefusedError(415, f"Send {' or '.join(content_types)}, named in Content-Type.")
    body = request.read(most_bytes + 1)
    if len(body) > most_bytes:
        raise CallbackRefusedError(413, f"At most {most_bytes:,} bytes are accepted.")
    return bytes(body)


SCAN_DELAY_SECONDS = 0.6
"""The time that the front takes to let a few hundred pings through: nothing is stored of their feeds between them."""
MAX_PENDING_CALLS = 20
"""The number of calls pending at a time, if they are made long after the request: each has a thread."""


class DebouncedCall:
    """A call made once for all requests within `together_seconds` of the first one, `wait_seconds` later."""

    def __init__(self, call: Callable[[], object], together_seconds: float, wait_seconds: float = 0) -> None:
        self._call, self._together_seconds, self._wait_seconds = call, together_seconds, wait_seconds
        self._lock, self._until = Lock(), 0.0

    def soon(self) -> None:
        """Requests the call, at the earliest `wait_seconds` from now. Waits for nothing."""
        with self._lock:
            now = time.monotonic()
            if now < self._until:
                return
            self._until = now + self._together_seconds
        timer = Timer(self._together_seconds + self._wait_seconds, self._call)
        timer.daemon = True
        timer.start()


SCAN_CALL = DebouncedCall(feed_rows.ask_for_scan, SCAN_DELAY_SECONDS)
_COOL_SECONDS = settings.FEEDS_PUSH_COOL_SECONDS
LATER_SCAN_CALL = DebouncedCall(
    feed_rows.ask_for_scan, max(SCAN_DELAY_SECONDS, _COOL_SECONDS / MAX_PENDING_CALLS), _COOL_SECONDS
)


def debounce_scan(pushed: PingResult) -> None:
    """Has a scan begin as soon as the pushed feed can be taken."""
    match pushed:
        case PingResult.FLAGGED:
            SCAN_CALL.soon()
        case PingResult.LATER:
            LATER_SCAN_CALL.soon()


MAX_PING_BYTES = 8192
MAX_PING_FIELDS = 20
MAX_CHALLENGE_CHARACTERS = 1000
XML_TYPES = (XML_TYPE, "application/xml")


@callback_view
def rsscloud_callback(request: HttpRequest, token: str) -> HttpResponse:
    """Answers `/rsscloud/<token>`: the challenge while the request is pending; pings for the subscription's feed."""
    return _answer_challenge(request, token) if request.method == "GET" else _take_cloud_ping(request, token)


def _answer_challenge(request: HttpRequest, token: str) -> HttpResponse:
    challenge = request.GET.get("challenge", "")
    if not challenge or len(challenge) > MAX_CHALLENGE_CHARACTERS:
        raise CallbackRefusedError(400, "A verification needs `url` and `challenge`.")
    if not pings.is_verification_expected(token, check_name(request.GET.get("url", "")), timezone.now()):
        raise CallbackRefusedError(404, NO_SUBSCRIPTION)
    return text_response(challenge)


def _take_cloud_ping(request: HttpRequest, token: str) -> HttpResponse:
    body = read_body(request, (FORM_TYPE, *XML_TYPES), MAX_PING_BYTES)
    is_called = (request.content_type or "").lower() in XML_TYPES
    url = check_name(_read_call_url(body) if is_called else _read_form_url(body))
    pushed = pings.flag_pinged_feed(PushKind.RSSCLOUD, token, url, timezone.now())
    if pushed is PingResult.UNKNOWN:
        raise CallbackRefusedError(404, NO_SUBSCRIPTION)
    debounce_scan(pushed)
    return text_response(rsscloud.write_acceptance(), XML_TYPE) if is_called else text_response("OK\n")


def _read_form_url(body: bytes) -> str:
    try:
        found = parse_qs(body.decode(), max_num_fields=MAX_PING_FIELDS).get("url", [])
    except ValueError as error:  # too many fields, or no UTF-8
        raise CallbackRefusedError(400, "This is not a form.") from error
    if len(found) != 1:
        raise CallbackRefusedError(400, "A ping needs exactly one `url`.")
    return found[0]


def _read_call_url(body: bytes) -> str:
    try:
        url = rsscloud.read_first_text(body)
    except ValueError as error:
        raise CallbackRefusedError(400, f"It cannot be read: {error}.") from error
    if not url:
        raise CallbackRefusedError(400, "The first parameter of the call is the URL of the feed.")
    return url


@callback_view
def websub_callback(request: HttpRequest, token: str) -> HttpResponse:
    """Answers `/websub/<token>`: GET for the hub's verifications and denials, POST for its deliveries."""
    if request.method == "POST":
        return _take_delivery(request, token, timezone.now())
    return _answer_hub(websub.read_hub_call(request.GET.dict()), token, timezone.now())


def _answer_hub(heard: HubQuestion | HubDenial | None, token: str, now: datetime) -> HttpResponse:
    check_name(heard.topic if heard else "")
    match heard:
        case HubQuestion(websub.SUBSCRIBE, topic, challenge, lease):
            is_right = subscribe.confirm_subscription(token, topic, websub.granted_lease(lease), now)
        case HubQuestion(_, topic, challenge, _):
            is_right = subscribe.confirm_unsubscription(token, topic, now)
        case HubDenial(topic, reason):
            challenge, is_right = "", subscribe.deny_subscription(token, topic, reason, now)
        case None:
            raise CallbackRefusedError(
                400, "`hub.mode` and `hub.topic` are required, and `hub.challenge` in a verification."
            )
    if not is_right:
        raise CallbackRefusedError(404, NO_SUBSCRIPTION)
    return text_response(challenge)


def _take_delivery(request: HttpRequest, token: str, now: datetime) -> HttpResponse:
    """Takes a delivery signed with the subscription's secret, refuses others. Without a secret it is a ping."""
    if (request.content_type or "").lower().startswith(NOT_FEED_TYPES):
        raise CallbackRefusedError(415, "Send the content of the topic with its Content-Type.")
    subscription = _find_subscription(token, now)
    body = read_body(request, (), settings.FEEDS_PUSH_MAX_BYTES)
    try:
        secret = credentials.unseal_secret(subscription.sealed_secret)
    except UnreadableSealError as error:  # the hub gets another when the subscription is renewed
        raise CallbackRefusedError(403, "The secret of this subscription is lost.") from error
    if secret and not websub.is_signature_valid(request.headers.get(websub.SIGNATURE_HEADER, ""), body, secret):
        raise CallbackRefusedError(403, f"{websub.SIGNATURE_HEADER} is missing, or does not match the body.")
    if not secret or not body:
        debounce_scan(pings.flag_pinged_feed(PushKind.WEBSUB, token, subscription.topic, now))
        return text_response("")
    content_type = request.headers.get("Content-Type", "")[:MAX_TYPE_CHARACTERS]
    try:
        return _keep_delivery(subscription, Delivery(body, content_type, now))
    except StoreUnavailable:
        return responses.not_now_response("Deliveries cannot be accepted now.")


def _find_subscription(token: str, now: datetime) -> CallbackSubscription:
    """Finds the subscription. Raises CallbackRefusedError if no deliveries are taken for it."""
    found = pings.find_subscription(PushKind.WEBSUB, token, now)
    if found is None:
        raise CallbackRefusedError(404, NO_SUBSCRIPTION)
    if found.state in ENDED_STATES or not found.is_fetched:
        raise CallbackRefusedError(410, "This subscription has ended.")
    if not found.is_in_force or found.state == SubscriptionStatus.DENIED.value:
        raise CallbackRefusedError(404, NO_SUBSCRIPTION)
    return found


def _keep_delivery(subscription: CallbackSubscription, delivery: Delivery) -> HttpResponse:
    """Keeps a delivery. Hubs repeat those they believe lost: a repeated one changes nothing.

    Raises StoreUnavailable.
    """
    assert subscription.feed_id is not None
    if deliveries.is_known_delivery(subscription.pk, delivery):
        return text_response("")
    try:
        deliveries.keep_delivery(subscription.feed_id, delivery)
    except StoreUnavailable as error:  # then the origin is fetched
        _log.warning("a delivery is not kept", extra={"feed": subscription.feed_id, "error": str(error)})
    pings.flag_delivered_feed(subscription.feed_id, delivery.received_at)
    deliveries.remember_delivery(subscription.pk, delivery)
    debounce_scan(PingResult.FLAGGED)
    return text_response("")
