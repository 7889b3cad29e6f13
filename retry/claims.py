"""Claims: the right to do one piece of work, kept in `state`. Each call is one script.

Also reads the durations that the ends of claims record by kind of work.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from . import stores
from .conf import LaneBounds, StateShare, conf
from .errors import PreparationError
from .scripts import Reply, ScriptCall
from .work import Work

FINISHED_CHANNEL = "retry:finished"
"""The Redis channel with one message for each ended claim: the outcome, a space, the work key."""

SWEPT_KEY = "retry:swept"
"""The key in `state` with the time (ms) since which the sweeper runs. It expires ten seconds after each pass."""

STARTED, SKIPPED = 1, 2
"""Replies of the start call: the work is ours to do; the work had no recent requests, and its claim has ended."""

LAPSES_IN_A_ROW_SECONDS = 900
"""A lapse counts as the second one within this time. It is twice the longest run of a piece of work."""

FAILURE_RECORDS = StateShare(1 / 50, record_bytes=420)
"""Failure records, of all work together: those that end soonest are forgotten first."""

SETBACKS_KEY = "retry:setbacks"
"""The list in `state` of the times (ms) by which the clock was set back, until all expiry times have followed."""
SETBACK_KEYS_AT_ONCE = 200

DURATION_KEPT_SECONDS = 30 * 24 * 3600
"""A kind's duration is kept for this long after its last update: kinds vanish with their layers."""

UNKNOWN_DURATION_MS = 1000

_COUNTER = "retry:token"
_CLAIMS_KEY = "retry:claims"
_LEASES_KEY = "retry:leases"
_STARTED_KEY = "retry:started"

_DURATION_PREFIX = "retry:duration:"

LookMode = Literal["look", "away", "begin", "refresh"]


@dataclass(frozen=True, slots=True)
class ClaimEnd:
    """The end of a claim: its outcome, and the arguments for lua/parts/claim_end.lua."""

    outcome: Literal["stored", "failed"]
    arguments: tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True)
class StartedWork:
    """The first work of a lane. `outcome` is STARTED, SKIPPED, or 0; `spec` has its task and arguments, as JSON."""

    outcome: int
    work_key: str
    token: int
    spec: str


def look_call(work_key: str, *, cache_is_away: bool = False) -> ScriptCall:
    """The call that asks for the state of the work. Claims nothing."""
    return _make_look_call(work_key, "away" if cache_is_away else "look", "", "", "")


def begin_call(work: Work, *, refresh: bool, client: str = "", is_popular: bool = False) -> ScriptCall:
    """The call that asks for the state of the work, and claims it if it is free and the lane has room.

    `client` names the network that asks: each round of the lane has one work of each client. Without, the site itself
    asks. Popular work takes turns with all other. See lua/parts/lane_rounds.lua.
    """
    spec = json.dumps({"task": work.task, "arguments": work.arguments})
    lane = work.refresh_lane if refresh else work.lane
    mode: LookMode = "refresh" if refresh else "begin"
    return _make_look_call(work.key, mode, work.kind, lane, spec, client, is_popular=is_popular)


def _make_look_call(  # noqa: PLR0917  # the arguments of a script
    work_key: str, mode: LookMode, kind: str, lane: str, spec: str, client: str = "", *, is_popular: bool = False
) -> ScriptCall:
    lanes = conf().RETRY_LANES
    bounds = lanes[lane] if lane else LaneBounds(limit=0, workers=1)
    faster_lanes = takewhile(lambda name: name != lane, lanes) if lane else ()
    of_work = [_claim_key(work_key), f"retry:done:{work_key}", f"retry:failure:{work_key}"]
    limits = (bounds["limit"], bounds["workers"])
    asked = (client, "1" if is_popular else "", "1" if "publisher" in bounds else "", json.dumps(_end_terms()))
    arguments = (work_key, kind, mode, lane, *limits, spec, UNKNOWN_DURATION_MS, *asked)
    keys = [*of_work, _COUNTER, _CLAIMS_KEY, queued_key(lane)]
    return ScriptCall("state", "look", keys, (*arguments, *faster_lanes))


def start_call(work_key: str, token: int, nonce: str) -> ScriptCall:
    """The call that turns a queued claim into a running one. `nonce` names the copy of the work.

    The reply is STARTED for the one copy that wins, and SKIPPED for work of a long lane without a request in
    RETRY_SKIP_SECONDS.
    """
    return ScriptCall("state", "start", (), (start_terms(), work_key, token, nonce))


def start_next_call(lane: str, work_key: str, nonce: str) -> ScriptCall:
    """The call that starts the first work of the lane, or this one if none waits there."""
    return ScriptCall("state", "start_next", (), (start_terms(), lane, nonce, work_key))


def read_started(reply: Reply) -> StartedWork:
    """Reads the reply of start_next.lua."""
    assert isinstance(reply, list)
    outcome, work_key, token, spec = reply
    return StartedWork(outcome, work_key.decode(), int(token), spec.decode())


def start_terms() -> str:
    """The terms of lua/parts/claim_start.lua as JSON. Scripts of other apps may start work in their own step."""
    terms = {
        **_end_terms(),
        "lease_ms": int(conf().RETRY_LEASE_SECONDS * 1000),
        "default_ms": UNKNOWN_DURATION_MS,
        "skip_ms": int(conf().RETRY_SKIP_SECONDS * 1000),
        "backlog_ms": conf().RETRY_SKIP_BACKLOG_SECONDS * 1000,
        "workers": {name: lane["workers"] for name, lane in conf().RETRY_LANES.items() if lane.get("skips")},
    }
    return json.dumps(terms)


def _end_terms() -> dict[str, int | str]:
    """The channel, and the milliseconds for which a done mark is in force."""
    return {"channel": FINISHED_CHANNEL, "done_ms": int(conf().RETRY_DONE_SECONDS * 1000)}


def renew_call(work_key: str, token: int) -> ScriptCall:
    """The call that renews the lease. The reply is 0 if another worker has the claim by now."""
    lease_ms = int(conf().RETRY_LEASE_SECONDS * 1000)
    return ScriptCall("state", "renew", [_claim_key(work_key), _LEASES_KEY], [work_key, token, lease_ms])


def requeue_call(work_key: str, token: int, wait_seconds: float, nonce: str) -> ScriptCall:
    """The call that queues a running claim again: the work is not done yet, and its publisher knows its next turn.

    Only the copy of the work that started with this nonce may do so. The reply is 0 if another copy runs, or none.
    """
    return ScriptCall("state", "requeue", (), [work_key, token, int(wait_seconds * 1000), UNKNOWN_DURATION_MS, nonce])


def abandon_call(work_key: str, token: int) -> ScriptCall:
    """The call that abandons a claim whose work could not be handed over."""
    return ScriptCall("state", "abandon", [_claim_key(work_key), _CLAIMS_KEY], [work_key, token, FINISHED_CHANNEL])


def finish_stored_call(work_key: str, token: int, duration_seconds: float) -> ScriptCall:
    return finish_call(stored_end(work_key, token, duration_seconds))


def finish_failed_call(work_key: str, token: int, error: PreparationError, *, luck: float) -> ScriptCall:
    """The call that ends a claim with a failure record. `luck`, uniform in [0, 1), is the jitter of the back-off."""
    return finish_call(failed_end(work_key, token, error, luck=luck))


def finish_call(ending: ClaimEnd) -> ScriptCall:
    """The call that ends a claim. The reply is 0 if another worker has the claim by now, or there is none."""
    return ScriptCall("state", "finish", (), (finish_terms(), *ending.arguments))


def stored_end(work_key: str, token: int, duration_seconds: float) -> ClaimEnd:
    return ClaimEnd("stored", (work_key, token, "stored", round(duration_seconds * 1000, 1)))


def failed_end(work_key: str, token: int, error: PreparationError, *, luck: float) -> ClaimEnd:
    """The end that leaves a failure record. `luck`, uniform in [0, 1), is the jitter of the back-off."""
    base_ms, max_ms = conf().RETRY_BACKOFF_BASE_SECONDS * 1000, conf().RETRY_BACKOFF_MAX_SECONDS * 1000
    asked_ms = -1 if error.retry_seconds is None else error.retry_seconds * 1000
    failure = (error.status, error.detail, base_ms, max_ms, luck, asked_ms)
    return ClaimEnd("failed", (work_key, token, "failed", 0, *failure))


def finish_terms() -> str:
    """The terms of lua/parts/claim_end.lua as JSON. Scripts of other apps may end work with it, in their own step."""
    bounds = {"kept_ms": DURATION_KEPT_SECONDS * 1000, "most_failures": FAILURE_RECORDS.most_records}
    return json.dumps({**_end_terms(), **bounds})


def place_call(work_key: str) -> ScriptCall:
    """The call that returns the lane, the spec and the place of claimed work: see place.lua."""
    return ScriptCall("state", "place", [_claim_key(work_key)], [work_key])


def sweep_call(most: int) -> ScriptCall:
    """The call that returns due claims, at most so many: see sweep.lua."""
    keys = [_CLAIMS_KEY, _LEASES_KEY, _COUNTER, SWEPT_KEY, SETBACKS_KEY]
    return ScriptCall("state", "sweep", keys, [most, LAPSES_IN_A_ROW_SECONDS * 1000])


def setback_call() -> ScriptCall:
    """The call that brings the expiry times of some keys forward after the clock was set back: see setback.lua.

    The reply is 1 if there is more to do.
    """
    return ScriptCall("state", "setback", [SETBACKS_KEY], [SETBACK_KEYS_AT_ONCE])


def age_call(lane: str, up: str, most: int) -> ScriptCall:
    """The call that moves work one lane up from a lane without a start in RETRY_AGE_SECONDS: see age.lua."""
    age_ms, limit = int(conf().RETRY_AGE_SECONDS * 1000), conf().RETRY_LANES[up]["limit"]
    keys = [queued_key(lane), queued_key(up), _CLAIMS_KEY, _STARTED_KEY]
    return ScriptCall("state", "age", keys, [lane, up, limit, age_ms, most])


def load_durations(kinds: Collection[str]) -> dict[str, float]:
    """Loads seconds by kind, later durations weighing more. Unknown kinds are left out. Raises StoreUnavailable."""
    asked = list(kinds)
    if not asked:
        return {}
    with stores.translate_errors("state"):
        found = stores.fast_client("state").mget([f"{_DURATION_PREFIX}{kind}" for kind in asked])
    return {kind: float(ms) / 1000 for kind, ms in zip(asked, found, strict=True) if ms is not None}


def queued_key(lane: str) -> str:
    """The Redis key of the sorted set of work keys that wait in a lane."""
    return f"retry:queued:{lane}"


def _claim_key(work_key: str) -> str:
    return f"retry:claim:{work_key}"
