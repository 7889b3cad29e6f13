"""Calls the webhook of a list that is finished: a POST by the fetchers, as all that goes out.

Called at least once. The row says whether it was told and when it is called next; the call itself is work of the
deferral protocol, so that there is one at a time, which survives its fetcher.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import F

from resources.clocks import AHEAD
from resources.fetching import conf as fetch_conf
from resources.fetching.outcomes import Failed, Failure, Fetched, Hop, NotModified
from resources.fetching.requests import Fetch
from retry import claims, connections, lanes, standings
from retry.contents import Prepared
from retry.errors import PreparationError, QueueUnavailable, StoreUnavailable
from retry.standings import Begun, Promoted, Unknown
from retry.work import Argument, Work

from ..knowing.models import Batch
from ..writing import telling
from . import progress, signatures

NAME = "resources.call_webhook"
LANE = "fetch.calls"
MOST_AT_ONCE = 100
MOST_ANSWER_BYTES = 65_536

FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=1)
LOOK_AGAIN = timedelta(minutes=1)
"""After which a call that was handed over is handed over again: it joins itself, if it is still there."""

UNCALLED_TIMES = 7
"""How many times as long a webhook is waited for that was not called yet: no fetcher runs, or its host is blocked."""

_WITHOUT_BODY = frozenset({301, 302, 303})
_HOPELESS = frozenset({Failure.REFUSED, Failure.EXPIRED})
_GONE = 410

_log = logging.getLogger("tarry.mirroring")


class CallWebhook:
    """The fetcher's task `resources.call_webhook`. Its arguments are the address and the list."""

    obeys_robots = False
    """It was asked for by whoever it belongs to."""

    def fetch(self, *arguments: Argument) -> Fetch:
        """The signed call. Raises PreparationError for a list that is gone or told."""
        batch = _batch(arguments)
        if batch is None or batch.told_at:
            raise PreparationError("There is nobody to be told any more.", status=404)
        body = body_of(batch)
        limits = replace(fetch_conf.fast_limits(), max_body_bytes=MOST_ANSWER_BYTES)
        return Fetch(
            batch.webhook,
            kind="webhook",
            method="POST",
            body=body,
            headers={"Content-Type": "application/json", **_signed(batch, body)},
            limits=limits,
        )

    def prepare(self, outcome: Fetched | NotModified | Failed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Notes what came of the call. Raises PreparationError when it has to be made again."""
        batch = _batch(arguments)
        if batch is None:
            return {}
        now = datetime.now(UTC)
        trouble = _trouble(outcome)
        if trouble is None:
            _note(batch, told_at=now, answer=f"told: {_status(outcome)}", call_at=None)
            return {}
        if _is_hopeless(outcome) or _is_too_late(batch, now):
            _give_up(batch, trouble, now)
            return {}
        pause = pause_after(batch.calls + 1)
        _note(batch, answer=trouble[:200], call_at=now + pause)
        raise PreparationError("The webhook did not take it.", retry_seconds=pause.total_seconds())


TASK = CallWebhook()


def call_due(now: datetime) -> int:
    """Hands the calls that are due to the fetchers; how many. What is under way already stays as it is."""
    ahead = Batch.objects.filter(told_at=None, call_at__gt=now, finished_at__gt=now + AHEAD)
    ahead.update(finished_at=now, call_at=now)
    due = Batch.objects.filter(told_at=None, call_at__lte=now).order_by("call_at")
    handed = 0
    for batch in due[:MOST_AT_ONCE]:
        if _is_too_late(batch, now):
            _give_up(batch, batch.answer or "nobody could call it", now)
            continue
        try:
            wait = _hand_over(work_of(batch))
        except StoreUnavailable as error:
            _log.warning("webhooks are called later", extra={"error": str(error)})
            break
        handed += wait is None
        unchanged = Batch.objects.filter(pk=batch.pk, told_at=None, call_at=batch.call_at)
        unchanged.update(call_at=now + (wait or LOOK_AGAIN))  # those that rest make room for others
    return handed


def work_of(batch: Batch) -> Work:
    """The call as work. Its address has a fragment, which is not sent: two lists are two calls to one address."""
    arguments = (f"{batch.webhook}#{batch.pk}", str(batch.pk))
    return Work(f"webhook:{batch.pk}", "webhook", LANE, LANE, NAME, arguments)


def body_of(batch: Batch) -> bytes:
    """What is told: the list and what became of it, as JSON."""
    told = {
        "event": "batch.finished",
        "batch": str(batch.pk),
        "url": f"{settings.PUBLIC_URL}/api/batches/{batch.pk}",
        "created_at": _moment(batch.created_at),
        "finished_at": _moment(batch.finished_at),
        "total": batch.total,
        "steps": progress.steps_of(batch.pk),
    }
    return json.dumps(told).encode()


def secrets_of(token_digest: str) -> list[str]:
    """A token's secrets under the keys of the site, the one of today first."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [signatures.secret(key, token_digest) for key in keys]


def pause_after(calls: int) -> timedelta:
    """How long it rests after so many calls: 30 s, doubled each time, up to an hour."""
    return min(FIRST_PAUSE * (1 << min(calls - 1, 20)), LONGEST_PAUSE)


def _hand_over(work: Work) -> timedelta | None:
    """Claims the work and publishes it; how long to wait when it is under way already, rests, or finds no room.

    Raises StoreUnavailable.
    """
    standing = standings.standing(connections.execute_patiently(claims.beginning(work, refresh=False)))
    match standing:
        case Begun(token) | Promoted(token):
            pass
        case Unknown():
            return FIRST_PAUSE
        case _:
            return timedelta(seconds=standing.wait_seconds)
    try:
        lanes.publish(work.task, work.key, token, work.arguments, work.lane)
    except QueueUnavailable as error:
        if isinstance(standing, Begun):
            connections.execute_patiently(claims.abandoning(work.key, token))
        return FIRST_PAUSE if error.retry_seconds is None else timedelta(seconds=error.retry_seconds)
    return None


def _batch(arguments: tuple[Argument, ...]) -> Batch | None:
    _, batch_id = arguments
    return Batch.objects.select_related("token").filter(pk=UUID(str(batch_id))).first()


def _signed(batch: Batch, body: bytes) -> dict[str, str]:
    """No signature for a list that no token sent, or one that is deleted by now."""
    if batch.token is None:
        return {}
    return {signatures.HEADER: signatures.sign(secrets_of(batch.token.digest), body)}


def _trouble(outcome: Fetched | NotModified | Failed) -> str | None:
    """Why the webhook does not count as told, for whoever sent the list; None when it does: it answered 2xx, whatever
    it said there.
    """
    hops: tuple[Hop, ...] = outcome.hops if isinstance(outcome, Failed) else outcome.head.hops
    if lost := [hop.status for hop in hops if hop.status in _WITHOUT_BODY]:
        return f"it redirects by {lost[0]}, which leaves the body behind"
    status = outcome.status if isinstance(outcome, Failed) else outcome.head.status
    if status is not None and 200 <= status < 300:
        return None
    assert isinstance(outcome, Failed)
    return telling.told(outcome.failure.value, outcome.detail).rstrip(".")


def _status(outcome: Fetched | NotModified | Failed) -> int | None:
    return outcome.status if isinstance(outcome, Failed) else outcome.head.status


def _is_hopeless(outcome: Fetched | NotModified | Failed) -> bool:
    return isinstance(outcome, Failed) and (outcome.failure in _HOPELESS or outcome.status == _GONE)


def _is_too_late(batch: Batch, now: datetime) -> bool:
    finished_at = batch.finished_at or now
    times = 1 if batch.calls else UNCALLED_TIMES
    return now - finished_at > times * timedelta(seconds=settings.MIRROR_WEBHOOK_SECONDS)


def _give_up(batch: Batch, why: str, now: datetime) -> None:
    _log.warning("a webhook was given up", extra={"batch": str(batch.pk), "error": why})
    _note(batch, told_at=now, answer=f"given up: {why}"[:200], call_at=None)


def _note(batch: Batch, **fields: object) -> None:
    Batch.objects.filter(pk=batch.pk, told_at=None).update(calls=F("calls") + 1, **fields)


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
