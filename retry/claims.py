"""Claims: the right to do a piece of work, in `state`. Each function is one call to one script."""

import json
from typing import Literal

from .conf import Lane, conf
from .scripts import Call
from .work import Work

FINISHED_CHANNEL = "retry:finished"
"""One publish here for every claim that ends; the message is the outcome, a space, the work key."""

SWEPT = "retry:swept"
"""Stands in `state` while the sweeper works: for ten seconds after each pass."""

UNKNOWN_DURATION_MS = 1000

Mode = Literal["look", "begin", "refresh"]


def looking(work_key: str) -> Call:
    """What is known of the work. Claims nothing."""
    return _look(work_key, "look", "", "", "")


def beginning(work: Work, *, refresh: bool) -> Call:
    """What is known of the work, and the claim to it when it is free and the lane has room."""
    spec = json.dumps({"task": work.task, "arguments": work.arguments})
    lane = work.refresh_lane if refresh else work.lane
    return _look(work.key, "refresh" if refresh else "begin", work.kind, lane, spec)


def _look(work_key: str, mode: Mode, kind: str, lane: str, spec: str) -> Call:
    bounds = conf().RETRY_LANES[lane] if lane else Lane(limit=0, workers=1)
    limit, workers = bounds["limit"], bounds["workers"]
    keys = [_claim(work_key), _done(work_key), _failure(work_key), _COUNTER, _CLAIMS, _DURATIONS, queued_name(lane)]
    return Call("state", "look", keys, (work_key, kind, mode, lane, limit, workers, spec, UNKNOWN_DURATION_MS))


def starting(work_key: str, token: int, nonce: str) -> Call:
    """Queued becomes running. The reply is 1 for the one copy of the work that wins: `nonce` names it."""
    lease_ms = int(conf().RETRY_LEASE_SECONDS * 1000)
    keys = [_claim(work_key), _CLAIMS, _LEASES, _DURATIONS]
    return Call("state", "start", keys, [work_key, token, nonce, lease_ms, UNKNOWN_DURATION_MS])


def renewing(work_key: str, token: int) -> Call:
    """The lease is set anew. The reply is 0 when the claim is somebody else's by now."""
    lease_ms = int(conf().RETRY_LEASE_SECONDS * 1000)
    return Call("state", "renew", [_claim(work_key), _LEASES], [work_key, token, lease_ms])


def abandoning(work_key: str, token: int) -> Call:
    """Takes back a claim whose work could not be handed over."""
    return Call("state", "abandon", [_claim(work_key), _CLAIMS], [work_key, token, FINISHED_CHANNEL])


def finishing_stored(work_key: str, token: int, duration_seconds: float) -> Call:
    return _finish(work_key, token, "stored", duration_seconds)


def finishing_failed(
    work_key: str, token: int, *, status: int, detail: str, luck: float, retry_seconds: float | None = None
) -> Call:
    """Leaves a failure record. `luck`, uniform in [0, 1), is the jitter of the back-off."""
    base_ms, max_ms = conf().RETRY_BACKOFF_BASE_SECONDS * 1000, conf().RETRY_BACKOFF_MAX_SECONDS * 1000
    asked_ms = -1 if retry_seconds is None else retry_seconds * 1000
    return _finish(work_key, token, "failed", 0, status, detail, base_ms, max_ms, luck, asked_ms)


def _finish(work_key: str, token: int, outcome: str, duration_seconds: float, *failure: str | int | float) -> Call:
    keys = [_claim(work_key), _done(work_key), _failure(work_key), _CLAIMS, _LEASES, _DURATIONS]
    done_ms, duration_ms = int(conf().RETRY_DONE_SECONDS * 1000), round(duration_seconds * 1000, 1)
    arguments = [work_key, token, outcome, done_ms, duration_ms, FINISHED_CHANNEL, *failure]
    return Call("state", "finish", keys, arguments)


def sweeping(most: int) -> Call:
    """Claims whose time has come: see sweep.lua."""
    return Call("state", "sweep", [_CLAIMS, _LEASES, _COUNTER, SWEPT], [most])


_COUNTER = "retry:token"
_CLAIMS = "retry:claims"
_LEASES = "retry:leases"
_DURATIONS = "retry:durations"


def queued_name(lane: str) -> str:
    """The sorted set of the work keys that wait in a lane."""
    return f"retry:queued:{lane}"


def _claim(work_key: str) -> str:
    return f"retry:claim:{work_key}"


def _done(work_key: str) -> str:
    return f"retry:done:{work_key}"


def _failure(work_key: str) -> str:
    return f"retry:failure:{work_key}"
