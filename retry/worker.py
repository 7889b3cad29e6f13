"""Workers: do the work of a claim, and sweep up work whose message or worker was lost.

A preparation starts the claim, keeps its lease, prepares, stores behind the fence, and finishes. The sweeper
publishes lost work again, ends work that has lost its worker twice, and moves work one lane up from lanes in
which nothing starts.
"""

import json
import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from celery import current_app, current_task
from celery.exceptions import NotRegistered
from django.utils.module_loading import import_string
from redis.exceptions import NoScriptError, RedisError

from . import claims, contents, lanes, metrics, servers, stores
from .claims import StartedWork
from .conf import conf
from .contents import Prepared
from .errors import PreparationError, QueueUnavailable, StoreUnavailable
from .leases import LEASES
from .messages import Message
from .scripts import Reply, ScriptCall

MAX_SWEPT_CLAIMS = 200

MAX_SETBACK_SECONDS = 0.5
"""The time in each pass for the expiry times of keys, after the clock was set back."""

MAX_AGED_PER_LANE = 5
"""The most pieces of work that move up from one lane in RETRY_AGE_SECONDS."""

_preparing_log = logging.getLogger("tarry.preparing")

_sweeping_log = logging.getLogger("tarry.sweeping")

Preparer = Callable[[], Mapping[str, Prepared]]

_started_before: ContextVar[StartedWork | None] = ContextVar("started before", default=None)
"""The work that has started already, for the task that is called for it."""


_in_hand: ContextVar[tuple[str, Message] | None] = ContextVar("in hand", default=None)
"""The lane of the message that this process handles, and the message."""


@contextmanager
def message_in_hand(lane: str, message: Message) -> Iterator[None]:
    """Says within the block that the message of the lane is being handled. A Celery worker says so by itself."""
    held = _in_hand.set((lane, message))
    try:
        yield
    finally:
        _in_hand.reset(held)


def prepare(work_key: str, token: int, preparer: Preparer) -> None:
    """Runs the preparer if this copy of the work is the one that starts. Does not raise the preparer's errors.

    In a Celery task, the first work of the message's lane is done instead: the lane has a message for each.
    Raises StoreUnavailable if `state` cannot be asked for the start.
    The content, or the failure record, is written before the claim ends. A process that lacks what failed work needed
    (RETRY_WORKER_NEEDS) gives that work back, and takes none until it has that again, as long as another machine does.
    """
    if not _started_before.get() and _hand_on():
        return
    started = _start_work(work_key, token)
    if started.outcome == claims.SKIPPED:
        metrics.count_skip(_task_name(started.work_key))
    if started.outcome != claims.STARTED:
        return  # another copy got there first, the claim is gone, or no client waits any longer
    if started.spec and (started.work_key, started.token) != (work_key, token):
        call_task(started)
    else:
        _prepare_started(started, preparer)


def _start_work(work_key: str, token: int) -> StartedWork:
    before = _started_before.get()
    if before is not None:
        return before
    lane, nonce = _message_lane(), uuid4().hex
    in_lane = claims.start_next_call(lane, work_key, nonce) if lane else claims.start_call(work_key, token, nonce)
    return replace(claims.read_started(stores.execute_patiently(in_lane)), nonce=nonce)


def _message_lane() -> str:
    """Returns the lane whose message this process handles; empty outside of a lane's message."""
    lane, _ = _in_hand.get() or _message_of_celery()
    return lane if lane in conf().RETRY_LANES else ""


def _message_of_celery() -> tuple[str, Message]:
    if not current_task:
        return "", Message("", (), {})
    request = current_task.request
    lane = str((request.delivery_info or {}).get("routing_key", ""))
    return lane, Message(str(current_task.name), tuple(request.args or ()), {})


def is_fit() -> bool:
    """Tells whether this process has all that work needs, as far as it is known."""
    return not _lacking


def call_task(started: StartedWork) -> None:
    """Calls the task of a work that has started, or was skipped, instead of the one in the message."""
    if started.outcome == claims.SKIPPED:
        metrics.count_skip(_task_name(started.work_key))
        return
    spec = json.loads(started.spec)
    called = _started_before.set(started)
    try:
        current_app.tasks[spec["task"]].run(started.work_key, started.token, *spec["arguments"])
    except NotRegistered as error:
        _fail_claim(started.work_key, started.token, PreparationError(f"No worker knows the task {error}."))
    finally:
        _started_before.reset(called)


def _task_name(work_key: str) -> str:
    return work_key.removeprefix(claims.FIRST_PARTITION).partition(":")[0]


REST_SECONDS = 2.0
"""How long a process rests after a message that it handed on."""

_lacking: set[str] = set()
"""The needs of RETRY_WORKER_NEEDS that failed work of this process had, and that were not met lately."""


def _hand_on() -> bool:
    """Publishes this message again and rests, if this process lacks something that another machine has."""
    _lacking.intersection_update([need for need in _lacking if import_string(need)(None)])
    lane = _message_lane() if _lacking else ""
    if not lane:
        return False
    try:
        lanes.note_unfit()
        if not lanes.has_other_machine(lane):
            return False
        _, message = _in_hand.get() or _message_of_celery()
        work_key, token, *arguments = message.arguments
        lanes.publish_work(message.task, work_key, token, arguments, lane)
    except (StoreUnavailable, QueueUnavailable):  # nothing was lost: the message is still here
        return False
    time.sleep(REST_SECONDS)
    return True


def _give_back(started: StartedWork, error: Exception) -> bool:
    """Queues the work again at its place if it failed for a need that this process lacks and another machine has."""
    lacking = [need for need in conf().RETRY_WORKER_NEEDS if import_string(need)(error)]
    _lacking.update(lacking)
    lane = _message_lane() if lacking else ""
    if not lane:
        return False
    _preparing_log.error("lost what work needs", extra={"work": started.work_key, "lacking": lacking})
    try:
        lanes.note_unfit()
        if not lanes.has_other_machine(lane):
            return False
        stores.execute_patiently(claims.requeue_call(started.work_key, started.token, 0, started.nonce))
        lanes.republish_work(started.spec, started.work_key, started.token, lane)
    except (StoreUnavailable, QueueUnavailable) as lost:  # the lease lapses, or the sweeper publishes it
        _preparing_log.warning("not given back at once", extra={"work": started.work_key, "error": str(lost)})
    return True


def _prepare_started(started: StartedWork, preparer: Preparer) -> None:
    work_key, token = started.work_key, started.token
    task, began = _task_name(work_key), time.monotonic()
    try:
        with LEASES.keep(work_key, token):
            _store_contents(preparer(), work_key, token, began)
        took = time.monotonic() - began
        _end_claim(task, "stored", took, claims.finish_stored_call(work_key, token, took))
    except PreparationError as error:
        if not _give_back(started, error):
            _fail_preparation(task, work_key, token, began, error)
    except StoreUnavailable as error:
        _preparing_log.warning("refused by a store", extra={"work": work_key, "error": str(error)})
        _fail_preparation(task, work_key, token, began, PreparationError("The content could not be stored."))
    except Exception as error:  # noqa: BLE001 - the edge of a worker's process: any error is a failed preparation
        if _give_back(started, error):
            return
        _preparing_log.exception("preparation failed", extra={"work": work_key})
        _fail_preparation(task, work_key, token, began, PreparationError("The preparation failed."))


def _store_contents(prepared: Mapping[str, Prepared], work_key: str, token: int, began: float) -> None:
    """Stores all contents of the work in one trip, each behind its fence (reply 0: newer content is there).

    Of a single small one, subscribers are told first.
    """
    stored_at, cost_seconds = datetime.now(UTC), time.monotonic() - began
    database = servers.database_number(conf().CACHE_URL)
    stored = (token, stored_at, cost_seconds, work_key, database)
    calls = [contents.store_call(key, content, *stored) for key, content in prepared.items()]
    if len(calls) != 1:
        stores.execute_all_patiently("cache", calls)
    elif database is not None and all(len(each.body) <= TOLD_FIRST_BYTES for each in prepared.values()):
        _store_and_tell(calls[0])
    else:
        stores.execute_patiently(calls[0])


TOLD_FIRST_BYTES = 12_000
"""The largest body of which _store_and_tell() makes use. Redis reads 16 KB at a time: the PING and the call are read
together, or the PING is answered too soon.
"""


def _store_and_tell(call: ScriptCall) -> Reply:
    """Stores content as stores.execute_patiently(). Redis writes to subscribers before it replies to this process.

    Redis writes first to the connection for which it had something to write last (`putClientInPendingWriteQueue` in its
    networking.c). The reply to the PING is written with that to the call, and its connection has its place before the
    call publishes. Without it this process would be woken first, and compute while a subscriber is still to be woken.
    """
    with stores.translate_errors(call.server), metrics.time_call(f"redis.{call.server}"):
        client = stores.patient_client(call.server)
        _, reply = servers.run_pipeline(client, [("PING",), call.by_digest()])
        if isinstance(reply, NoScriptError):
            return servers.run_command(client, call.by_text())
        if isinstance(reply, RedisError):
            raise reply
        return reply


def _fail_preparation(task: str, work_key: str, token: int, began: float, error: PreparationError) -> None:
    call = claims.finish_failed_call(work_key, token, error, luck=random.random())
    _end_claim(task, "failed", time.monotonic() - began, call)


def _end_claim(task: str, outcome: str, seconds: float, finishing: ScriptCall) -> None:
    try:
        ended = stores.execute_patiently(finishing) == 1
    except StoreUnavailable as error:  # the lease lapses, and the sweeper has the work done again
        _preparing_log.error("could not finish", extra={"error": str(error)})
        ended = False
    metrics.count_preparation(task, outcome if ended else "superseded", seconds)


SweptClaim = tuple[bytes, bytes, bytes, bytes, bytes]
"""What is due, the work key, the token, the lane, and the spec: see sweep.lua."""


def sweep_claims() -> int:
    """Sweeps the due claims of all partitions that answer, in one pass. Returns their number.

    Raises StoreUnavailable if none answers.
    """
    swept = _sweep_partitions()
    due = [claim for found in swept.values() for claim in found]
    if len(swept) > 1:
        random.shuffle(due)  # each message is of one partition, and any may be lost
    has_all = len(swept) == conf().STATE_PARTITIONS
    lacking = _count_lacking({lane for what, _, _, lane, _ in due if what == b"due"}) if has_all else {}
    found = 0
    for claim in due:
        what, lane = claim[0], claim[3]
        if what == b"due" and lane in lacking:
            lacking[lane] -= 1
            if lacking[lane] < 0:  # a message that waits stands for it
                continue
        found += 1
        _go_on_with(claim)
    _follow_setback([*swept])
    return found


def _go_on_with(claim: SweptClaim) -> None:
    """Publishes swept work again, or gives it up."""
    what, work_key, token, lane, spec = claim
    if what == b"lapsed":
        metrics.count_republication("given up")
        _sweeping_log.error("lost its worker twice", extra={"work": work_key.decode()})
        _fail_claim(work_key.decode(), int(token), PreparationError("The preparation ended its worker twice."))
    else:
        _republish("again", work_key.decode(), int(token), lane.decode(), spec)


def _sweep_partitions() -> dict[int, list[SweptClaim]]:
    """Returns the due claims by partition, of those that answer."""
    cache_is_away = not stores.answers("cache")
    return _ask_partitions(
        {
            each: claims.sweep_call(each, MAX_SWEPT_CLAIMS, cache_is_away=cache_is_away)
            for each in range(conf().STATE_PARTITIONS)
        }
    )


def _ask_partitions(calls: Mapping[int, ScriptCall]) -> dict[int, Any]:
    """Runs a call for each partition, in one trip. Returns the replies of those that answer.

    Raises StoreUnavailable if none does.
    """
    replies = dict(zip(calls, stores.execute_each("state", [*calls.values()]), strict=True))
    found = {each: reply for each, reply in replies.items() if not isinstance(reply, StoreUnavailable)}
    if len(found) < len(calls):
        _sweeping_log.warning("some partitions do not answer", extra={"partitions": sorted(calls.keys() - found)})
    return found


def _count_lacking(due_lanes: set[bytes]) -> dict[bytes, int]:
    """Counts the works of each lane for which no message waits. A lane with a publisher has no messages."""
    names = [lane.decode() for lane in due_lanes]
    celery_queues = [name for name in names if "publisher" not in conf().RETRY_LANES.get(name, {})]
    queued, messages = claims.count_queued(names), lanes.count_messages(celery_queues)
    return {name.encode(): queued.get(name, 0) - messages.get(name, 0) for name in names}


def _follow_setback(partitions: Sequence[int]) -> None:
    """Brings expiry times forward after the clock was set back; the next pass goes on with the rest."""
    until = time.monotonic() + MAX_SETBACK_SECONDS
    firsts = {partitions[place] for place in stores.first_at_nodes("state", claims.root_keys(partitions))}
    left = {each: claims.setback_call(each, is_first=each in firsts) for each in partitions}
    while left and time.monotonic() < until:
        replies = _ask_partitions(left)
        left = {each: call for each, call in left.items() if replies.get(each) == 1}


def age_lanes() -> int:
    """Moves the oldest work of lanes in which nothing starts one lane up. Returns how many.

    Partitions that do not answer are left out. Raises StoreUnavailable if none does.
    """
    if not conf().RETRY_AGE_SECONDS:
        return 0
    replies = _ask_partitions({each: claims.idle_call(each) for each in range(conf().STATE_PARTITIONS)})
    idle = [each for found in replies.values() for each in zip(found[::2], found[1::2], strict=True)]
    busy = {lane.decode() for lane, ms in idle if int(ms) < conf().RETRY_AGE_SECONDS * 1000}
    ups = {name: lane["up"] for name, lane in conf().RETRY_LANES.items() if "up" in lane and name not in busy}
    return sum(_age_lane(name, up, [*replies]) for name, up in ups.items())


def _age_lane(lane: str, up: str, partitions: Sequence[int]) -> int:
    """Moves the first works of the lane, in all partitions together no more than MAX_AGED_PER_LANE."""
    moved = 0
    for partition in random.sample(partitions, len(partitions)):
        if moved < MAX_AGED_PER_LANE:
            found = stores.execute_patiently(claims.age_call(partition, lane, up, MAX_AGED_PER_LANE - moved))
            moved += len(cast("list[object]", found))
            for work_key, token, spec in cast("list[tuple[bytes, bytes, bytes]]", found):
                _republish("aged", work_key.decode(), int(token), up, spec)
    return moved


def _republish(reason: str, work_key: str, token: int, lane: str, spec: bytes) -> None:
    metrics.count_republication(reason)
    try:
        lanes.republish_work(spec, work_key, token, lane)
    except QueueUnavailable as error:
        if error.retry_seconds is not None:  # a wait would bring nothing
            _fail_claim(work_key, token, PreparationError(str(error), status=503, retry_seconds=error.retry_seconds))
        else:  # it stays due: a later pass publishes it
            _sweeping_log.warning("not published", extra={"work": work_key, "error": str(error)})


def _fail_claim(work_key: str, token: int, error: PreparationError) -> None:
    stores.execute_patiently(claims.finish_failed_call(work_key, token, error, luck=random.random()))
