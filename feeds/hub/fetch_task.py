"""The fetchers' tasks of this site's hub: to ask a callback whether it wants a subscription, and to deliver to it.

A callback gets nothing before it has confirmed. It has FEEDS_HUB_ANSWER_SECONDS to answer, is not followed when it
redirects (WebSub, 7), and its answer is read up to a few KB. Results of deliveries are written down in `state`, and
from there into the rows many at a time: a fetcher writes no row for a delivery.
"""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from threading import Lock

from django.conf import settings
from django.db import Error as DatabaseError
from django.utils.crypto import constant_time_compare, salted_hmac

from resources import locks
from resources.fetch import conf
from resources.fetch.http.messages import (
    Failure,
    Fetched,
    FetchFailed,
    FetchLimits,
    FetchRequest,
    NotModified,
    UnreadableSealError,
)
from retry.contents import Prepared
from retry.errors import PreparationError, StoreUnavailable
from retry.work import Argument

from .. import credentials
from ..hub_models import Subscriber
from ..push import rsscloud, websub
from ..push.kinds import PushKind
from ..push.websub import HubDenial, HubQuestion
from . import registration, topics
from .topics import Letter

MAX_ANSWER_BYTES = 16_384
RESULTS_KEY = "feeds:hub-results"
OUTAGE_RETRY_SECONDS = 5.0
GONE_STATUS = 410
REQUEST_KIND = "subscriber"
_CHALLENGE_PURPOSE = "feeds.hub.challenge"

_log = logging.getLogger("tarry.feeds")

Outcome = Fetched | NotModified | FetchFailed


def callback_limits() -> FetchLimits:
    """The limits of a request to a callback: a slow one holds a slot for this long at the most."""
    seconds, usual = settings.FEEDS_HUB_ANSWER_SECONDS, conf.fast_limits()
    limits = replace(usual, deadline_seconds=seconds, head_seconds=seconds, max_redirects=0)
    return replace(limits, connect_seconds=min(seconds, usual.connect_seconds), max_body_bytes=MAX_ANSWER_BYTES)


def build_challenge(row: Subscriber) -> str:
    """The challenge of the row's request: another one for each, which only this site can tell."""
    return salted_hmac(_CHALLENGE_PURPOSE, f"{row.pk}:{request_stamp(row)}:{row.intent}").hexdigest()


def request_stamp(row: Subscriber) -> int:
    """Tells requests of one subscriber apart."""
    return round(row.asked_at.timestamp() * 1_000_000) if row.asked_at else 0


def _outage_error() -> PreparationError:
    return PreparationError("The subscribers cannot be read now.", status=503, retry_seconds=OUTAGE_RETRY_SECONDS)


class VerifySubscriber:
    """The task `feeds.verify_subscriber`. Its arguments are the callback, the subscriber, and its request's stamp."""

    obeys_robots = False
    """A request for the callback names it for this purpose."""
    settles_waits = True

    def identify(self, *arguments: Argument) -> str:
        """Returns the request: each has a challenge of its own."""
        return f"{arguments[1]}:{arguments[2]}"

    def fetch(self, *arguments: Argument) -> FetchRequest | Mapping[str, Prepared]:
        """Builds the question; nothing if it is no longer open. Raises PreparationError."""
        try:
            row = _load_asked(arguments)
            return {} if row is None else _build_question(row)
        except DatabaseError as error:
            raise _outage_error() from error
        except ValueError as error:
            raise PreparationError(f"The callback cannot be asked: {error}.", status=404) from error

    def prepare(self, outcome: Outcome, *arguments: Argument) -> Mapping[str, Prepared]:
        """Stores the callback's answer. Raises PreparationError if it cannot be stored."""
        try:
            if (row := _load_asked(arguments)) is not None:
                _settle_question(row, outcome, datetime.now(UTC))
        except DatabaseError as error:
            raise _outage_error() from error
        return {}


def _load_asked(arguments: tuple[Argument, ...]) -> Subscriber | None:
    """The subscriber with its request, unless that is settled, or another one has come."""
    row = Subscriber.objects.select_related("topic").filter(pk=int(arguments[1])).exclude(intent="").first()
    return row if row is not None and request_stamp(row) == int(arguments[2]) else None


def _build_question(row: Subscriber) -> FetchRequest:
    """Builds the request by which the callback shows that it means it. Raises ValueError if it cannot be sent."""
    topic, challenge = topics.topic_address(row.topic), build_challenge(row)
    if row.kind == PushKind.RSSCLOUD.value and not row.is_named:
        return _build_ping(row, topic)
    if row.intent == websub.DENIED:
        url = websub.write_denial(row.callback, HubDenial(topic, row.reason))
    elif row.kind == PushKind.RSSCLOUD.value:
        url = rsscloud.write_challenge(row.callback, topic, challenge)
    else:
        lease = registration.asked_lease(row) if row.intent == websub.SUBSCRIBE else None
        url = websub.write_question(row.callback, HubQuestion(row.intent, topic, challenge, lease))
    return FetchRequest(url, kind=REQUEST_KIND, limits=callback_limits())


def _build_ping(row: Subscriber, topic: str) -> FetchRequest:
    content_type, body = rsscloud.write_ping(topic, row.procedure)
    headers = {"Content-Type": content_type}
    return FetchRequest(
        row.callback, kind=REQUEST_KIND, method="POST", body=body, headers=headers, limits=callback_limits()
    )


def _settle_question(row: Subscriber, outcome: Outcome, now: datetime) -> None:
    """Settles the request, unless this machine is in trouble: then the callback is asked again."""
    if isinstance(outcome, FetchFailed) and outcome.failure is Failure.OURS:
        return
    if row.intent != websub.DENIED and (why := _doubt(row, outcome)) == "":
        registration.confirm_request(row, now)
        return
    why = "" if row.intent == websub.DENIED else why
    _log.info("a subscriber has not confirmed", extra={"host": row.host, "topic": row.topic.path, "error": why})
    registration.reject_request(row, why, now)


def _is_uncounted(outcome: Outcome) -> bool:
    """True for troubles of this machine or its network, and where the whole host rests, maybe for another callback."""
    return isinstance(outcome, FetchFailed) and outcome.failure in {Failure.OURS, Failure.POSTPONED}


def _doubt(row: Subscriber, outcome: Outcome) -> str:
    """Says why the answer is no confirmation; empty for a confirmation."""
    if not isinstance(outcome, Fetched):
        return f"{outcome.detail.rstrip('.')}." if isinstance(outcome, FetchFailed) else "It answered 304."
    answer = outcome.body.read()
    if row.kind == PushKind.RSSCLOUD.value and not row.is_named:
        is_right = not row.procedure or rsscloud.is_call_accepted(answer)
    else:
        is_right = constant_time_compare(answer.strip(), build_challenge(row).encode())
    return "" if is_right else "It answered something else."


class DeliverTopic:
    """The task `feeds.deliver`. Its arguments are the callback, the subscriber, its topic, and the version owed."""

    obeys_robots = False
    """The callback has asked for it."""
    settles_waits = True

    def identify(self, *arguments: Argument) -> str:
        """Returns the subscriber: each delivery is signed with a secret of its own."""
        return str(arguments[1])

    def fetch(self, *arguments: Argument) -> FetchRequest | Mapping[str, Prepared]:
        """Builds the delivery; nothing if it is no longer owed. Raises PreparationError."""
        try:
            pk, topic_id, version = map(int, arguments[1:])
            row = OWED_ROWS.take(pk, topic_id)
            if row is None or not row.is_owed(version, datetime.now(UTC)):
                return {}
            letter = topics.SHELF.take(topic_id, version)
            return {} if letter is None else _build_delivery(row, letter)
        except DatabaseError as error:
            raise _outage_error() from error

    def prepare(self, outcome: Outcome, *arguments: Argument) -> Mapping[str, Prepared]:
        """Writes the result down. Raises PreparationError if `state` is away: then it is delivered again."""
        pk = int(arguments[1])
        result = DeliveryResult.read(pk, _sent_versions.pop(pk, int(arguments[3])), outcome)
        try:
            with locks.open_state() as client:
                client.rpush(RESULTS_KEY, result.to_json())
        except StoreUnavailable as error:
            raise _outage_error() from error
        return {}


VERIFICATION, DELIVERY = VerifySubscriber(), DeliverTopic()


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of a delivery of that version. `trouble` is empty for success; `is_gone`: the callback is gone.

    `is_uncounted`: it is not the subscriber that failed.
    """

    pk: int
    version: int
    trouble: str = ""
    is_gone: bool = False
    is_uncounted: bool = False

    @classmethod
    def read(cls, pk: int, version: int, outcome: Outcome) -> "DeliveryResult":
        """Any answer of 2xx is success (WebSub, 7), whatever follows its head."""
        status = outcome.status if isinstance(outcome, FetchFailed) else outcome.head.status
        if status is not None and 200 <= status < 300:
            return cls(pk, version)
        detail = outcome.detail if isinstance(outcome, FetchFailed) else "it answered 304"
        return cls(pk, version, f"{detail.rstrip('.')}."[:200], status == GONE_STATUS, _is_uncounted(outcome))

    def to_json(self) -> str:
        return json.dumps([self.pk, self.version, self.trouble, self.is_gone, self.is_uncounted])

    @classmethod
    def from_json(cls, held: str | bytes) -> "DeliveryResult":
        return cls(*json.loads(held))


@dataclass(frozen=True, slots=True)
class OwedSubscriber:
    """The facts of a subscriber in force that a delivery needs. `read_at` is by the monotonic clock."""

    pk: int
    kind: str
    callback: str
    procedure: str
    sealed_secret: str
    told_version: int
    expires_at: datetime
    read_at: float

    def is_owed(self, version: int, now: datetime) -> bool:
        return self.told_version < version and self.expires_at > now


ROWS_AT_ONCE, MAX_ROWS, ROWS_SECONDS = 250, 50_000, 15.0
"""One query for each delivery would cost more than all the rest of it."""
CHECKED_AT_ONCE, CHECK_SECONDS = 1000, 1.0
"""Subscriptions that were in force a second ago are looked at again, many at a time: they may have ended."""


class OwedRows:
    """The subscribers in force of a moment ago, read many at a time: those of one topic are delivered to together."""

    def __init__(self) -> None:
        self._rows: dict[int, OwedSubscriber] = {}
        self._checked_at: dict[int, float] = {}
        self._lock = Lock()

    def take(self, pk: int, topic_id: int) -> OwedSubscriber | None:
        """Returns the subscriber as it was at most ROWS_SECONDS ago; None if it was not in force CHECK_SECONDS ago.

        It is not in force either if its topic is gone. Raises DatabaseError.
        """
        with self._lock:
            held, now = self._rows.get(pk), time.monotonic()
            if held is None or now - held.read_at > ROWS_SECONDS:
                self._rows.pop(pk, None)
                self._read(pk, topic_id, now)
            elif now - self._checked_at[pk] > CHECK_SECONDS:
                self._check(pk, topic_id, now)
            return self._rows.get(pk)

    def forget(self) -> None:
        """Forgets all rows: the next ones are read anew."""
        with self._lock:
            self._rows.clear()
            self._checked_at.clear()

    def _read(self, pk: int, topic_id: int, now: float) -> None:
        if len(self._rows) > MAX_ROWS:
            self._rows.clear()
            self._checked_at.clear()
        names = [each.name for each in fields(OwedSubscriber) if each.name != "read_at"]
        for values in topics.subscribers_in_force(topic_id, pk).values_list(*names)[:ROWS_AT_ONCE]:
            self._rows[values[0]] = OwedSubscriber(**dict(zip(names, values, strict=True)), read_at=now)
            self._checked_at[values[0]] = now

    def _check(self, pk: int, topic_id: int, now: float) -> None:
        in_force = topics.subscribers_in_force(topic_id, pk).values_list("pk", flat=True)[:CHECKED_AT_ONCE]
        found = dict.fromkeys(in_force, now)
        self._checked_at.update((one, now) for one in found if one in self._rows)
        if pk not in found:
            del self._rows[pk]


OWED_ROWS = OwedRows()


def _build_delivery(row: OwedSubscriber, letter: Letter) -> FetchRequest | Mapping[str, Prepared]:
    """Builds the request. Without the secret's key the subscription ends: unsigned, it would be refused, or forged."""
    try:
        secret = credentials.unseal_secret(row.sealed_secret)
    except UnreadableSealError:
        registration.end_subscriber(row.pk, "Its secret is lost.", datetime.now(UTC))
        return {}
    if row.kind == PushKind.RSSCLOUD.value:
        content_type, body = rsscloud.write_ping(letter.topic, row.procedure)
        headers = {"Content-Type": content_type}
    else:
        body, headers = letter.body, {"Content-Type": letter.content_type, "Link": letter.links}
        if secret:
            headers[websub.SIGNATURE_HEADER] = websub.sign_body(body, secret)
    _sent_versions[row.pk] = letter.version
    return FetchRequest(
        row.callback, kind=REQUEST_KIND, method="POST", body=body, headers=headers, limits=callback_limits()
    )


_sent_versions: dict[int, int] = {}
"""The version under way to each subscriber: it may be newer than the one that was handed over."""
