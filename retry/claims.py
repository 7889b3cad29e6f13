"""Claims: the right to do one piece of work, kept in `state`. Each call is one script.

Also reads the durations that the ends of claims record by kind of work.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from statistics import fmean
from typing import Any, Literal

from . import stores
from .conf import StateShare, cached_settings, conf, partition_of, partition_root, partition_tag
from .errors import PreparationError, StoreUnavailable
from .records import frozen_record
from .scripts import Reply, ScriptCall
from .work import Work

FINISHED_CHANNEL = "retry:finished"
"""The Redis channel with one message for each ended claim: the outcome, a space, the work key."""

STARTED, SKIPPED = 1, 2
"""Replies of the start call: the work is ours to do; the work had no recent requests, and its claim has ended."""

LAPSES_IN_A_ROW_SECONDS = 900
"""A lapse counts as the second one within this time. It is twice the longest run of a piece of work."""

FAILURE_RECORDS = StateShare(1 / 50, record_bytes=420)
"""Failure records, of all work together: those that end soonest are forgotten first."""

SETBACK_KEYS_AT_ONCE = 200

DURATION_KEPT_SECONDS = 30 * 24 * 3600
"""A kind's duration is kept for this long after its last update: kinds vanish with their layers."""

UNKNOWN_DURATION_MS = 1000

FIRST_PARTITION = "fetch:"
"""The beginning of the keys of works whose claims are in the first partition. Work of a lane whose LaneBounds have
`first_partition` has such a key: scripts of its publisher start and end it, and a script touches one partition.
"""

LookMode = Literal["look", "away", "begin", "refresh"]


@frozen_record
class ClaimEnd:
    """The end of a claim: its outcome, and the arguments for lua/parts/claim_end.lua."""

    outcome: Literal["stored", "failed"]
    arguments: tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True)
class StartedWork:
    """A copy of work. `outcome` is STARTED, SKIPPED, or 0; `nonce` names the copy.

    `spec` has the task and its arguments, as JSON, of the first work of a lane.
    """

    outcome: int
    work_key: str
    token: int
    spec: str
    nonce: str = ""


def look_call(work_key: str, *, cache_is_away: bool = False) -> ScriptCall:
    """The call that asks for the state of the work. Claims nothing."""
    return _make_look_call(work_key, "away" if cache_is_away else "look", "", "", "")


def begin_call(work: Work, *, refresh: bool, client: str = "", popular: str = "", message: str = "") -> ScriptCall:
    """The call that asks for the state of the work, and claims it if it is free and the lane has room.

    `client` names the network that asks: each round of the lane has one work of each client. Without, the site itself
    asks. Popular work takes turns with all other: `popular` is popularity.describe_content(), or empty for work that is
    not. See lua/parts/lane_rounds.lua. A claim sends the `message`, if there is one: see lanes.write_claim_message().
    """
    spec = json.dumps({"task": work.task, "arguments": work.arguments})
    lane = work.refresh_lane if refresh else work.lane
    if conf().RETRY_LANES[lane].get("first_partition") and not work.key.startswith(FIRST_PARTITION):
        raise ValueError(f"The key of work in the lane {lane} must begin with {FIRST_PARTITION}, not as {work.key}.")
    mode: LookMode = "refresh" if refresh else "begin"
    return _make_look_call(work.key, mode, work.kind, lane, spec, client, popular, message)


def _make_look_call(  # noqa: PLR0917  # the arguments of a script
    work_key: str,
    mode: LookMode,
    kind: str,
    lane: str,
    spec: str,
    client: str = "",
    popular: str = "",
    message: str = "",
) -> ScriptCall:
    lanes = conf().RETRY_LANES
    limit, workers = conf().lane_share(lane) if lane else (0, 1)
    faster_lanes = takewhile(lambda name: name != lane, lanes) if lane else ()
    is_published = bool(lane) and "publisher" in lanes[lane]
    asked = (client, popular, "1" if is_published else "", _look_terms(), message)
    arguments = (work_key, kind, mode, lane, limit, workers, spec, UNKNOWN_DURATION_MS, *asked)
    return _call_at(work_key, "look", *arguments, *faster_lanes)


def start_call(work_key: str, token: int, nonce: str) -> ScriptCall:
    """The call that turns a queued claim into a running one. `nonce` names the copy of the work. See read_started.

    The outcome is STARTED for the one copy that wins, which has a new token, and SKIPPED for work of a long lane
    without a request in RETRY_SKIP_SECONDS.
    """
    return _call_at(work_key, "start", start_terms(), work_key, token, nonce)


def start_next_call(lane: str, work_key: str, nonce: str) -> ScriptCall:
    """The call that starts the first work of the lane in that work's partition, or this one if none waits there."""
    return _call_at(work_key, "start_next", start_terms(), lane, nonce, work_key)


def start_first_call(lanes: Sequence[str], nonce: str) -> ScriptCall:
    """The call that starts the first work of the first of the lanes that has one. `state` must have one partition."""
    return ScriptCall("state", "start_first", [_root(0)], [start_terms(), nonce, *lanes])


def read_started_in_lane(reply: Reply, nonce: str) -> tuple[str, StartedWork] | None:
    """Reads the reply of start_first.lua. Returns the lane and the work, or None if none was started or skipped."""
    assert isinstance(reply, list)
    *started, lane = reply
    found = replace(read_started(started), nonce=nonce)
    return (lane.decode(), found) if found.outcome in {STARTED, SKIPPED} else None


def read_started(reply: Reply) -> StartedWork:
    """Reads the reply of start.lua or start_next.lua."""
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
        "workers": {name: conf().lane_share(name)[1] for name, lane in conf().RETRY_LANES.items() if lane.get("skips")},
    }
    return json.dumps(terms)


@cached_settings
def _look_terms() -> str:
    return json.dumps(_end_terms())


def _end_terms() -> dict[str, int | str]:
    """The channel, and the milliseconds for which a done mark is in force."""
    return {"channel": FINISHED_CHANNEL, "done_ms": int(conf().RETRY_DONE_SECONDS * 1000)}


def renew_call(work_key: str, token: int) -> ScriptCall:
    """The call that renews the lease. The reply is 0 if another worker has the claim by now."""
    lease_ms = int(conf().RETRY_LEASE_SECONDS * 1000)
    return _call_at(work_key, "renew", work_key, token, lease_ms)


def requeue_call(work_key: str, token: int, wait_seconds: float, nonce: str) -> ScriptCall:
    """The call that queues a running claim again: the work is not done yet, and its publisher knows its next turn.

    Only the copy of the work that started with this nonce may do so. The reply is 0 if another copy runs, or none.
    """
    return _call_at(work_key, "requeue", work_key, token, int(wait_seconds * 1000), UNKNOWN_DURATION_MS, nonce)


def abandon_call(work_key: str, token: int) -> ScriptCall:
    """The call that abandons a claim whose work could not be handed over."""
    return _call_at(work_key, "abandon", work_key, token, FINISHED_CHANNEL)


def finish_stored_call(work_key: str, token: int, duration_seconds: float) -> ScriptCall:
    return finish_call(stored_end(work_key, token, duration_seconds))


def finish_failed_call(work_key: str, token: int, error: PreparationError, *, luck: float) -> ScriptCall:
    """The call that ends a claim with a failure record. `luck`, uniform in [0, 1), is the jitter of the back-off."""
    return finish_call(failed_end(work_key, token, error, luck=luck))


def finish_call(ending: ClaimEnd) -> ScriptCall:
    """The call that ends a claim. The reply is 0 if another worker has the claim by now, or there is none."""
    return _call_at(str(ending.arguments[0]), "finish", finish_terms(), *ending.arguments)


def stored_end(work_key: str, token: int, duration_seconds: float) -> ClaimEnd:
    return ClaimEnd("stored", (work_key, token, "stored", round(duration_seconds * 1000, 1)))


def failed_end(work_key: str, token: int, error: PreparationError, *, luck: float) -> ClaimEnd:
    """The end that leaves a failure record. `luck`, uniform in [0, 1), is the jitter of the back-off."""
    base_ms, max_ms = conf().RETRY_BACKOFF_BASE_SECONDS * 1000, conf().RETRY_BACKOFF_MAX_SECONDS * 1000
    asked_ms = -1 if error.retry_seconds is None else error.retry_seconds * 1000
    failure = (error.status, error.detail, base_ms, max_ms, luck, asked_ms)
    return ClaimEnd("failed", (work_key, token, "failed", 0, *failure))


@cached_settings
def finish_terms() -> str:
    """The terms of lua/parts/claim_end.lua as JSON. Scripts of other apps may end work with it, in their own step."""
    bounds = {"kept_ms": DURATION_KEPT_SECONDS * 1000, "most_failures": FAILURE_RECORDS.most_in_partition}
    return json.dumps({**_end_terms(), **bounds})


def place_call(work_key: str) -> ScriptCall:
    """The call that returns the lane and the place of claimed work: see place.lua."""
    return _call_at(work_key, "place", work_key)


def sweep_call(partition: int, most: int, *, cache_is_away: bool) -> ScriptCall:
    """The call that returns due claims of a partition, at most so many: see sweep.lua."""
    arguments = (most, LAPSES_IN_A_ROW_SECONDS * 1000, "1" if cache_is_away else "")
    return ScriptCall("state", "sweep", [_root(partition)], arguments)


def root_keys(partitions: Sequence[int]) -> list[str]:
    """A key of each partition, to find its node by."""
    return [*map(_root, partitions)]


def setback_call(partition: int, *, is_first: bool) -> ScriptCall:
    """The call that brings the expiry times of some keys forward after the clock was set back: see setback.lua.

    The first partition of a node does so for the keys of no partition, too. The reply is 1 if there is more to do.
    """
    arguments = (SETBACK_KEYS_AT_ONCE, partition_tag(partition), "1" if is_first else "")
    return ScriptCall("state", "setback", [_root(partition)], arguments)


def age_call(partition: int, lane: str, up: str, most: int) -> ScriptCall:
    """The call that moves work one lane up from a lane without a start in RETRY_AGE_SECONDS: see age.lua."""
    age_ms, (limit, _) = int(conf().RETRY_AGE_SECONDS * 1000), conf().lane_share(up)
    return ScriptCall("state", "age", [_root(partition)], [lane, up, limit, age_ms, most])


def idle_call(partition: int) -> ScriptCall:
    """The call that returns the milliseconds since work of each lane started in a partition: see idle.lua."""
    return ScriptCall("state", "idle", [_root(partition)])


def load_durations(kinds: Collection[str]) -> dict[str, float]:
    """Loads seconds by kind, later durations weighing more. Unknown kinds are left out. Raises StoreUnavailable."""
    found = _read_partitions([("GET", f"duration:{kind}", _all_partitions()) for kind in kinds])
    seconds = {kind: [float(ms) / 1000 for ms in one if ms is not None] for kind, one in zip(kinds, found, strict=True)}
    return {kind: fmean(known) for kind, known in seconds.items() if known}


def count_queued(lanes: Sequence[str]) -> dict[str, int]:
    """Counts the works that wait in each of the lanes, where a partition answers. Leaves out lanes where none does.

    Raises StoreUnavailable if that is all of them.
    """
    found = _read_partitions([("ZCARD", f"queued:{lane}", _partitions_of(lane)) for lane in lanes])
    return {lane: sum(map(int, one)) for lane, one in zip(lanes, found, strict=True) if one}


def is_swept() -> bool:
    """Tells whether the sweeper has passed all partitions in the last ten seconds. Raises StoreUnavailable."""
    [found] = _read_partitions([("GET", "swept", _all_partitions())])
    return len(found) == conf().STATE_PARTITIONS and all(found)


def _read_partitions(reads: Sequence[tuple[str, str, Sequence[int]]]) -> list[list[Any]]:
    """Reads keys in one trip, each by a command, the end of the key, and the partitions that have it.

    Returns for each the replies of those that answer. Raises StoreUnavailable if no reply came at all.
    """
    keys = [f"{_root(partition)}:{key}" for _, key, partitions in reads for partition in partitions]
    commands = [command for command, _, partitions in reads for _ in partitions]
    replies = iter(stores.read_each("state", keys, list(zip(commands, keys, strict=True))) if reads else ())
    found = [list(islice(replies, len(partitions))) for _, _, partitions in reads]
    return [[reply for reply in one if not isinstance(reply, StoreUnavailable)] for one in found]


def _all_partitions() -> Sequence[int]:
    return range(conf().STATE_PARTITIONS)


def _partitions_of(lane: str) -> Sequence[int]:
    """The partitions with works of the lane."""
    bounds = conf().RETRY_LANES
    return (0,) if lane in bounds and bounds[lane].get("first_partition") else _all_partitions()


def partition_of_work(work_key: str) -> int:
    """The partition of `state` with the claim of the work."""
    return 0 if work_key.startswith(FIRST_PARTITION) else partition_of(work_key)


def _root(partition: int) -> str:
    return partition_root("retry", partition)


def _call_at(work_key: str, script: str, *arguments: str | float) -> ScriptCall:
    """The call of a script in the partition of the work."""
    return ScriptCall("state", script, [_root(partition_of_work(work_key))], arguments)
