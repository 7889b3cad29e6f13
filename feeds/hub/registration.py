"""Takes subscribers' requests at this site's hub and cloud, within bounds, and stores their callbacks' answers.

A request is noted, and nothing else: a fetcher asks its callback whether it means it (WebSub, 5.3), a moment later.
Until then a subscription in force stays as it is, with its secret and its lease.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from redis.exceptions import RedisError

from resources.fetch import conf
from resources.fetch.http import url_syntax
from resources.fetch.http.limit_scopes import url_scopes
from resources.fetch.http.messages import FetchError
from retry import stores
from retry.errors import StoreUnavailable

from .. import credentials
from ..errors import FeedError, PageQueryError, UnknownFeedError
from ..hub_models import MAX_CALLBACK_CHARACTERS, HubTopic, Subscriber
from ..models import Category, Feed
from ..pages import page_entries
from ..pages.query import PageQuery
from ..push import websub
from ..push.kinds import PushKind
from ..push.leases import CLOUD_LEASE, SubscriberStatus
from ..push.websub import HubRequest

PENDING_SHARE = 10
"""Requests of new subscribers that wait for their callbacks are at most the tenth part of all subscribers."""
PENDING_OF_A_HOST = 4
"""Of these, callbacks of one domain are at most a quarter."""
REQUESTS_GROUP, COUNTED_SECONDS = "feeds:hub-requests", 60


class RegistrationRefusedError(FeedError):
    """The request is refused with this status. Its text is for the sender."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


@dataclass(frozen=True, slots=True)
class CallbackRequest:
    """A request for a callback, of either protocol. `procedure` and `is_named` are those of `Subscriber`."""

    kind: PushKind
    callback: str
    topic: str
    mode: str = websub.SUBSCRIBE
    secret: str = ""
    lease: timedelta = CLOUD_LEASE
    procedure: str = ""
    is_named: bool = True

    @classmethod
    def from_websub(cls, asked: HubRequest) -> "CallbackRequest":
        usual, longest = settings.FEEDS_HUB_LEASE_DAYS, settings.FEEDS_HUB_MAX_LEASE_DAYS
        lease = websub.allow_lease(asked.lease, timedelta(days=usual), timedelta(days=longest))
        return cls(PushKind.WEBSUB, asked.callback, asked.topic, asked.mode, asked.secret, lease)


def count_requests(network: str, number: int, now: datetime) -> None:
    """Counts requests of a client's network. Raises RegistrationRefusedError beyond the limit, StoreUnavailable."""
    group, window, at = REQUESTS_GROUP, COUNTED_SECONDS, now.timestamp()
    try:
        counted, _ = stores.count_in_window("state", group, network, number, window_seconds=window, now_seconds=at)
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    if counted > settings.FEEDS_HUB_REQUESTS_PER_MINUTE:
        raise RegistrationRefusedError(429, "Your address has sent too many requests within a minute.")


def note_request(request: CallbackRequest, now: datetime) -> None:
    """Notes a request, to be verified. Raises RegistrationRefusedError and DatabaseError."""
    callback = _check_callback(request.callback)
    if request.mode == websub.UNSUBSCRIBE:
        _note_end(callback, request, now)
        return
    asked, subject = _find_topic(request.topic)
    digest = _digest(request.kind.value, callback, request.procedure, asked.path, _subject_name(subject))
    known, fields = Subscriber.objects.filter(digest=digest), _asked_fields(request, now)
    if known.exclude(state=SubscriberStatus.ENDED.value).update(**fields):
        return
    host, topic = url_scopes(callback).registrable, _take_topic(asked, subject)
    _check_bounds(host, topic)
    known.delete()  # it has ended
    own = {"procedure": request.procedure, "is_named": request.is_named, "told_version": subject.version}
    row = Subscriber(topic=topic, kind=request.kind.value, callback=callback, host=host, digest=digest, **own, **fields)
    row.wanted_version = subject.version  # it is told of later changes
    try:
        row.save(force_insert=True)
    except IntegrityError:  # another process has noted the same
        known.update(**fields)


def _note_end(callback: str, request: CallbackRequest, now: datetime) -> None:
    """Notes the request to end a subscription, whose topic may be gone or have another address by now."""
    known = Subscriber.objects.filter(host=url_scopes(callback).registrable, callback=callback, kind=request.kind.value)
    of_topic = known.filter(topic__path=request.topic.removeprefix(page_entries.site_url()))
    if not of_topic.filter(state=SubscriberStatus.VERIFIED.value).update(**_asked_fields(request, now)):
        raise RegistrationRefusedError(404, "There is no such subscription.")


def _check_callback(callback: str) -> str:
    """Returns the callback's address. Raises RegistrationRefusedError for one that fetchers would refuse."""
    try:
        target = url_syntax.parse_target(callback, max_bytes=MAX_CALLBACK_CHARACTERS - 200)
        url_scopes(target.url)
    except (FetchError, ValueError) as error:
        raise RegistrationRefusedError(400, f"The callback is no address that can be called: {error}.") from error
    guard = conf.fetch_policy().guard
    if not guard.may_use(target.port):
        raise RegistrationRefusedError(403, f"Port {target.port} is not called.")
    if target.is_address and (why := guard.refusal(target.host, target.port)):
        raise RegistrationRefusedError(403, f"The callback is not called: {why}.")
    if urlsplit(target.url).netloc == urlsplit(page_entries.site_url()).netloc:
        raise RegistrationRefusedError(403, "This site does not subscribe to itself.")
    return target.url


def _find_topic(address: str) -> tuple[PageQuery, Feed | Category]:
    site = page_entries.site_url()
    unknown = f"The topic is no feed of this site: {site}/feeds/….atom, .rss or .json, without parameters."
    try:
        asked = PageQuery.read_address(address.removeprefix(site))
    except (PageQueryError, ValueError) as error:
        raise RegistrationRefusedError(404, unknown) from error
    if not asked.is_topic or f"{site}{asked.path}" != address:
        raise RegistrationRefusedError(404, unknown)
    try:
        return asked, page_entries.find_subject(asked, is_bare=True)
    except UnknownFeedError as error:
        raise RegistrationRefusedError(404, unknown) from error


def _take_topic(asked: PageQuery, subject: Feed | Category) -> HubTopic:
    of = {"feed": subject} if isinstance(subject, Feed) else {"category": subject}
    defaults = {"path": asked.path, "version": subject.version, **of}
    return HubTopic.objects.get_or_create(digest=_digest(asked.path, _subject_name(subject)), defaults=defaults)[0]


def _check_bounds(host: str, topic: HubTopic) -> None:
    """Raises RegistrationRefusedError where one more would be too many."""
    current = Subscriber.objects.exclude(state=SubscriberStatus.ENDED.value)
    asked, most = current.filter(state=SubscriberStatus.ASKED.value), settings.FEEDS_HUB_SUBSCRIBERS
    pending = max(1, most // PENDING_SHARE)
    of_host = max(1, pending // PENDING_OF_A_HOST)
    bounds: list[tuple[QuerySet[Subscriber], int, int, str]] = [
        (current.filter(host=host), settings.FEEDS_HUB_HOST_SUBSCRIBERS, 403, f"{host} has many subscriptions here"),
        (current.filter(topic=topic), settings.FEEDS_HUB_TOPIC_SUBSCRIBERS, 503, "The feed has many subscribers"),
        (asked.filter(host=host), of_host, 503, f"Many subscriptions of {host} are being verified"),
        (asked, pending, 503, "Many subscriptions are being verified"),
        (current, most, 503, "This hub has many subscribers"),
    ]
    for rows, bound, status, detail in bounds:
        if rows.count() >= bound:
            raise RegistrationRefusedError(status, f"{detail}, and takes no more for now.")


def _asked_fields(request: CallbackRequest, now: datetime) -> dict[str, Any]:
    return {
        "intent": request.mode,
        "asked_at": now,
        "ask_at": now,
        "asks": 0,
        "asked_secret": credentials.seal_password(request.secret),
        "asked_seconds": round(request.lease.total_seconds()),
    }


def asked_lease(row: Subscriber) -> timedelta:
    """The lease that the row's request gets."""
    return timedelta(seconds=row.asked_seconds)


def confirm_request(row: Subscriber, now: datetime) -> None:
    """Stores that the callback has confirmed the request that is in the row. Raises DatabaseError.

    It is owed the change that others were told of while it was asked.
    """
    asked = Subscriber.objects.filter(pk=row.pk, asked_at=row.asked_at, intent=row.intent)
    if row.intent == websub.UNSUBSCRIBE:
        asked.update(**_ended_fields("Unsubscribed.", now))
        return
    with transaction.atomic():
        topics = HubTopic.objects.select_for_update(no_key=True)  # no change is being marked now
        told_of = topics.filter(pk=row.topic_id).values_list("version", flat=True).first() or 0
        asked.update(
            state=SubscriberStatus.VERIFIED.value,
            sealed_secret=F("asked_secret"),
            verified_at=now,
            expires_at=now + asked_lease(row),
            reason="",
            failures=0,
            **_settled_fields(),
        )
        missed = Subscriber.objects.filter(pk=row.pk, state=SubscriberStatus.VERIFIED.value)
        missed.filter(wanted_version__lt=told_of).update(wanted_version=told_of, due_at=now)


def reject_request(row: Subscriber, why: str, now: datetime) -> None:
    """Stores that the callback has not confirmed it. A subscription in force stays, a new one is forgotten.

    Raises DatabaseError.
    """
    asked = Subscriber.objects.filter(pk=row.pk, asked_at=row.asked_at, intent=row.intent)
    if row.state == SubscriberStatus.ASKED.value:
        asked.delete()
    elif row.intent == websub.DENIED:
        asked.update(**_ended_fields(row.reason, now))
    else:
        asked.update(reason=f"Its last request was not confirmed: {why}", **_settled_fields())


def end_subscriber(pk: int, why: str, now: datetime) -> None:
    """Ends a subscription without a word to its callback. Raises DatabaseError."""
    Subscriber.objects.filter(pk=pk).update(**_ended_fields(why, now))


def _settled_fields() -> dict[str, Any]:
    return {"intent": "", "asked_secret": "", "ask_at": None, "asks": 0}


def _ended_fields(why: str, now: datetime) -> dict[str, Any]:
    ended = {"state": SubscriberStatus.ENDED.value, "reason": why, "ended_at": now, "due_at": None, "expires_at": None}
    return {**ended, "sealed_secret": "", **_settled_fields()}


def _subject_name(subject: Feed | Category) -> str:
    return f"{'feed' if isinstance(subject, Feed) else 'category'}:{subject.pk}"


def _digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
