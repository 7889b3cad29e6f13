"""Calls the webhook of a finished batch: a signed POST by the fetchers, as for all requests to other sites.

A webhook is called at least once. The row says whether it was told and when it is called next. The call itself is
work of the deferral protocol, so that there is one at a time, which survives its fetcher.

Calls are signed as Standard Webhooks says (https://www.standardwebhooks.com), with the time, so that a captured
call cannot be sent again later. `Tarry-Signature`, an HMAC-SHA-256 (RFC 2104) of the body alone, is for receivers
that know only it. Each token has a secret of its own, which its owner can ask for.
"""

import hashlib
import hmac
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import F
from standardwebhooks import Webhook

from resources.database import MAX_CLOCK_LEAD
from resources.fetch import conf, dispatch
from resources.fetch.dispatch import EnqueueOutcome, QueuedWork, UrlRefused, WorkEnqueued
from resources.fetch.http.messages import Failure, Fetched, FetchFailed, FetchRequest, Hop, NotModified
from retry.contents import Prepared
from retry.errors import PreparationError, StoreUnavailable
from retry.work import Argument, Work

from ..ingest import url_outcome
from ..models import Batch
from . import batches

SIGNATURE_HEADER = "Tarry-Signature"

_PURPOSE = b"tarry: webhooks\x00"


def webhook_secrets(token_digest: str) -> list[str]:
    """Returns a token's secrets under the keys of the site, the current one first.

    They are hexadecimal texts, whose characters are the HMAC's key.
    """
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [_hmac_sha256(key, _PURPOSE + token_digest.encode()) for key in keys]


def _hmac_sha256(key: str, message: bytes) -> str:
    return hmac.new(key.encode(), message, hashlib.sha256).hexdigest()


def sign_call(secrets: Sequence[str], call_id: str, at: datetime, body: bytes) -> dict[str, str]:
    """Returns the fields that sign a call: with one signature for each secret in force. One valid one is enough.

    `Tarry-Signature: sha256=6b5f…, sha256=90ce…`
    """
    signatures = [Webhook(one).sign(call_id, at, body.decode()) for one in secrets]
    return {
        "webhook-id": call_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(signatures),
        SIGNATURE_HEADER: ", ".join(f"sha256={_hmac_sha256(one, body)}" for one in secrets),
    }


CALL_TASK_NAME = "resources.call_webhook"
CALL_LANE = "fetch.calls"
MAX_CALLS_AT_ONCE = 100
MAX_ANSWER_BYTES = 65_536

FIRST_CALL_PAUSE = timedelta(seconds=30)
MAX_CALL_PAUSE = timedelta(hours=1)
HAND_OVER_AGAIN_AFTER = timedelta(minutes=1)
"""The time after which a call is handed over again: it joins the first one if that is still there."""

UNCALLED_FACTOR = 7
"""The factor on the limit for a webhook that was not called yet: no fetcher runs, or its host is blocked."""

_REDIRECTS_WITHOUT_BODY = frozenset({301, 302, 303})
_HOPELESS_FAILURES = frozenset({Failure.REFUSED, Failure.EXPIRED})
_GONE_STATUS = 410

_log = logging.getLogger("tarry.mirroring")


class CallWebhook:
    """The fetcher's task `resources.call_webhook`. Its arguments are the address and the batch."""

    obeys_robots = False
    """The owner of the webhook has asked for the call."""

    def identify(self, *arguments: Argument) -> str:
        """Returns the batch: its call has a body of its own."""
        return str(arguments[1])

    def fetch(self, *arguments: Argument) -> FetchRequest:
        """Returns the signed call. Raises PreparationError for a batch that is gone or told."""
        batch = _load_batch(arguments)
        if batch is None or batch.told_at:
            raise PreparationError("The batch is gone, or its webhook was told.", status=404)
        body = webhook_body(batch)
        limits = replace(conf.fast_limits(), max_body_bytes=MAX_ANSWER_BYTES)
        return FetchRequest(
            batch.webhook,
            kind="webhook",
            method="POST",
            body=body,
            headers={"Content-Type": "application/json", **_signature_fields(batch, body)},
            limits=limits,
        )

    def prepare(self, outcome: Fetched | NotModified | FetchFailed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Notes the outcome of the call. Raises PreparationError when it has to be repeated."""
        batch = _load_batch(arguments)
        if batch is None:
            return {}
        now = datetime.now(UTC)
        trouble = _call_trouble(outcome)
        if trouble is None:
            _note_call(batch, told_at=now, answer=f"told: {_answer_status(outcome)}", call_at=None)
            return {}
        if _is_hopeless(outcome) or _is_too_late(batch, now):
            _give_up_webhook(batch, trouble, now)
            return {}
        pause = pause_after_calls(batch.calls + 1)
        _note_call(batch, answer=trouble[:200], call_at=now + pause)
        raise PreparationError("The webhook did not take it.", retry_seconds=pause.total_seconds())


TASK = CallWebhook()


def hand_over_due_calls(now: datetime) -> int:
    """Hands due calls to the fetchers; returns how many. Calls under way stay as they are."""
    ahead = Batch.objects.filter(told_at=None, call_at__gt=now, finished_at__gt=now + MAX_CLOCK_LEAD)
    ahead.update(finished_at=now, call_at=now)
    due = Batch.objects.filter(told_at=None, call_at__lte=now).order_by("call_at")
    batches_by_id = {}
    for batch in due[:MAX_CALLS_AT_ONCE]:
        if _is_too_late(batch, now):
            _give_up_webhook(batch, batch.answer or "it could not be called", now)
        else:
            batches_by_id[batch.pk] = batch
    wanted = {pk: QueuedWork(webhook_work(batch)) for pk, batch in batches_by_id.items()}
    try:
        outcomes = dispatch.claim_and_enqueue(wanted, refresh=False)
    except StoreUnavailable as error:
        _log.warning("webhooks are called later", extra={"error": str(error)})
        return 0
    for pk, outcome in outcomes.items():
        unchanged = Batch.objects.filter(pk=pk, told_at=None, call_at=batches_by_id[pk].call_at)
        unchanged.update(call_at=now + _wait_after(outcome))  # resting calls make room for others
    return sum(isinstance(outcome, WorkEnqueued) for outcome in outcomes.values())


def _wait_after(outcome: EnqueueOutcome) -> timedelta:
    match outcome:
        case WorkEnqueued():
            return HAND_OVER_AGAIN_AFTER
        case UrlRefused():
            return FIRST_CALL_PAUSE
        case _:
            return timedelta(seconds=outcome.wait_seconds)


def webhook_work(batch: Batch) -> Work:
    """Returns the call as work."""
    arguments = (batch.webhook, str(batch.pk))
    return Work(f"fetch:webhook:{batch.pk}", "webhook", CALL_LANE, CALL_LANE, CALL_TASK_NAME, arguments)


def webhook_body(batch: Batch) -> bytes:
    message = {
        "event": "batch.finished",
        "batch": str(batch.pk),
        "url": f"{settings.PUBLIC_URL}/api/batches/{batch.pk}",
        "created_at": _iso_time(batch.created_at),
        "finished_at": _iso_time(batch.finished_at),
        "total": batch.total,
        "steps": batches.count_settled_items(batch.pk),
    }
    return json.dumps(message).encode()


def pause_after_calls(calls: int) -> timedelta:
    """Returns the pause after so many calls: 30 s, doubled each time, up to an hour."""
    return min(FIRST_CALL_PAUSE * (1 << min(calls - 1, 20)), MAX_CALL_PAUSE)


def _load_batch(arguments: tuple[Argument, ...]) -> Batch | None:
    _, batch_id = arguments
    return Batch.objects.select_related("token").filter(pk=UUID(str(batch_id))).first()


def _signature_fields(batch: Batch, body: bytes) -> dict[str, str]:
    """Returns the fields with the signatures; none for a batch without a token, or whose token is deleted."""
    if batch.token is None:
        return {}
    return sign_call(webhook_secrets(batch.token.digest), str(batch.pk), datetime.now(UTC), body)


def _call_trouble(outcome: Fetched | NotModified | FetchFailed) -> str | None:
    """Returns, for the sender of the list, why the webhook does not count as told; None after a 2xx with any body."""
    hops: tuple[Hop, ...] = outcome.hops if isinstance(outcome, FetchFailed) else outcome.head.hops
    if lost := [hop.status for hop in hops if hop.status in _REDIRECTS_WITHOUT_BODY]:
        return f"it redirects by {lost[0]}, which leaves the body behind"
    status = _answer_status(outcome)
    if status is not None and 200 <= status < 300:
        return None
    assert isinstance(outcome, FetchFailed)
    return url_outcome.describe_failure(outcome.failure.value, outcome.detail).rstrip(".")


def _answer_status(outcome: Fetched | NotModified | FetchFailed) -> int | None:
    return outcome.status if isinstance(outcome, FetchFailed) else outcome.head.status


def _is_hopeless(outcome: Fetched | NotModified | FetchFailed) -> bool:
    return isinstance(outcome, FetchFailed) and (
        outcome.failure in _HOPELESS_FAILURES or outcome.status == _GONE_STATUS
    )


def _is_too_late(batch: Batch, now: datetime) -> bool:
    finished_at = batch.finished_at or now
    times = 1 if batch.calls else UNCALLED_FACTOR
    return now - finished_at > times * timedelta(seconds=settings.MIRROR_WEBHOOK_SECONDS)


def _give_up_webhook(batch: Batch, why: str, now: datetime) -> None:
    _log.warning("a webhook was given up", extra={"batch": str(batch.pk), "error": why})
    _note_call(batch, told_at=now, answer=f"given up: {why}"[:200], call_at=None)


def _note_call(batch: Batch, **fields: object) -> None:
    Batch.objects.filter(pk=batch.pk, told_at=None).update(calls=F("calls") + 1, **fields)


def _iso_time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")
