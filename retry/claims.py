"""Claims: the right to do a piece of work, in `state`. Each function is one call to one script."""

import json
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from .conf import Lane, conf
from .errors import PreparationError
from .scripts import Call
from .work import Work

FINISHED_CHANNEL = "retry:finished"
"""One publish here for every claim that ends; the message is the outcome, a space, the work key."""

SWEPT = "retry:swept"
"""Stands in `state` while the sweeper works, for ten seconds after each pass: since when it does, in ms."""

STARTED, SKIPPED = 1, 2
"""Replies of `starting`: the work is ours to do; nobody wants it any more, and its claim has ended."""

DURATION_KEPT_SECONDS = 30 * 24 * 3600
"""How long a kind's duration is remembered after the last of it: kinds go with the layers that had them."""

UNKNOWN_DURATION_MS = 1000

Mode = Literal["look", "begin", "refresh"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a claim ends, and what lua/parts/finishing.lua is told of that."""

    outcome: Literal["stored", "failed"]
    arguments: tuple[str | int | float, ...]


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
    keys = [_claim(work_key), _done(work_key), _failure(work_key), _COUNTER, _CLAIMS, queued_name(lane)]
    arguments = (work_key, kind, mode, lane, limit, workers, spec, UNKNOWN_DURATION_MS)
    return Call("state", "look", keys, (*arguments, *_faster_than(lane)))


def _faster_than(lane: str) -> list[str]:
    return list(takewhile(lambda name: name != lane, conf().RETRY_LANES)) if lane else []


def starting(work_key: str, token: int, nonce: str) -> Call:
    """Queued becomes running. The reply is STARTED for the one copy of the work that wins: `nonce` names it.

    It is SKIPPED for work of a long lane that nobody has asked for in RETRY_SKIP_SECONDS.
    """
    return Call("state", "start", (), (starting_terms(), work_key, token, nonce))


def starting_terms() -> str:
    """What lua/parts/starting.lua goes by, as JSON. Scripts of other apps may start works by it, in their own step."""
    done_ms, fence_ms = _mark_ms()
    terms = {
        "lease_ms": int(conf().RETRY_LEASE_SECONDS * 1000),
        "default_ms": UNKNOWN_DURATION_MS,
        "channel": FINISHED_CHANNEL,
        "done_ms": done_ms,
        "fence_ms": fence_ms,
        "skip_ms": int(conf().RETRY_SKIP_SECONDS * 1000),
        "backlog_ms": conf().RETRY_SKIP_BACKLOG_SECONDS * 1000,
        "workers": {name: lane["workers"] for name, lane in conf().RETRY_LANES.items() if lane.get("skips")},
    }
    return json.dumps(terms)


def _mark_ms() -> tuple[int, int]:
    """How long a done mark is in force, and how long it keeps off the end of an older claim to the same work.

    Nobody works longer than RETRY_MAX_PREPARE_SECONDS and a lease under one claim.
    """
    done = conf().RETRY_DONE_SECONDS
    fence = done + conf().RETRY_MAX_PREPARE_SECONDS + conf().RETRY_LEASE_SECONDS
    return int(done * 1000), int(fence * 1000)


def renewing(work_key: str, token: int) -> Call:
    """The lease is set anew. The reply is 0 when the claim is somebody else's by now."""
    lease_ms = int(conf().RETRY_LEASE_SECONDS * 1000)
    return Call("state", "renew", [_claim(work_key), _LEASES], [work_key, token, lease_ms])


def requeueing(work_key: str, token: int, wait_seconds: float, nonce: str) -> Call:
    """Running becomes queued again: the work is not done yet, and whoever publishes it knows when its turn comes.

    Only the copy of the work that started by this nonce. The reply is 0 when another runs, or none.
    """
    return Call("state", "requeue", (), [work_key, token, int(wait_seconds * 1000), UNKNOWN_DURATION_MS, nonce])


def abandoning(work_key: str, token: int) -> Call:
    """Takes back a claim whose work could not be handed over."""
    return Call("state", "abandon", [_claim(work_key), _CLAIMS], [work_key, token, FINISHED_CHANNEL])


def finishing_stored(work_key: str, token: int, duration_seconds: float) -> Call:
    return finishing(stored(work_key, token, duration_seconds))


def finishing_failed(work_key: str, token: int, error: PreparationError, *, luck: float) -> Call:
    """Leaves a failure record. `luck` is as for failed()."""
    return finishing(failed(work_key, token, error, luck=luck))


def finishing(ending: Ending) -> Call:
    """The end of a claim. The reply is 0 when the claim is somebody else's by now."""
    return Call("state", "finish", (), (finishing_terms(), *ending.arguments))


def stored(work_key: str, token: int, duration_seconds: float) -> Ending:
    return Ending("stored", (work_key, token, "stored", round(duration_seconds * 1000, 1)))


def failed(work_key: str, token: int, error: PreparationError, *, luck: float) -> Ending:
    """Leaves a failure record. `luck`, uniform in [0, 1), is the jitter of the back-off."""
    base_ms, max_ms = conf().RETRY_BACKOFF_BASE_SECONDS * 1000, conf().RETRY_BACKOFF_MAX_SECONDS * 1000
    asked_ms = -1 if error.retry_seconds is None else error.retry_seconds * 1000
    failure = (error.status, error.detail, base_ms, max_ms, luck, asked_ms)
    return Ending("failed", (work_key, token, "failed", 0, *failure))


def finishing_terms() -> str:
    """What lua/parts/finishing.lua goes by, as JSON. Scripts of other apps may end works by it, in their own step."""
    done_ms, fence_ms = _mark_ms()
    kept_ms = DURATION_KEPT_SECONDS * 1000
    return json.dumps({"done_ms": done_ms, "fence_ms": fence_ms, "kept_ms": kept_ms, "channel": FINISHED_CHANNEL})


def sweeping(most: int) -> Call:
    """Claims whose time has come: see sweep.lua."""
    return Call("state", "sweep", [_CLAIMS, _LEASES, _COUNTER, SWEPT], [most])


def ageing(lane: str, up: str, most: int) -> Call:
    """Moves work one lane up from a lane in which nothing has started for RETRY_AGE_SECONDS: see age.lua."""
    age_ms, limit = int(conf().RETRY_AGE_SECONDS * 1000), conf().RETRY_LANES[up]["limit"]
    keys = [queued_name(lane), queued_name(up), _CLAIMS, _STARTED]
    return Call("state", "age", keys, [lane, up, limit, age_ms, most])


_COUNTER = "retry:token"
_CLAIMS = "retry:claims"
_LEASES = "retry:leases"
_STARTED = "retry:started"


def queued_name(lane: str) -> str:
    """The sorted set of the work keys that wait in a lane."""
    return f"retry:queued:{lane}"


def _claim(work_key: str) -> str:
    return f"retry:claim:{work_key}"


def _done(work_key: str) -> str:
    return f"retry:done:{work_key}"


def _failure(work_key: str) -> str:
    return f"retry:failure:{work_key}"
