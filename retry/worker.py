"""Workers: do the work of a claim, and sweep up work whose message or worker was lost.

A preparation starts the claim, keeps its lease, prepares, stores behind the fence, and finishes. The sweeper
publishes lost work again, ends work that has lost its worker twice, and moves work one lane up from lanes in
which nothing starts.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from uuid import uuid4

from . import claims, contents, lanes, metrics, stores
from .conf import conf
from .contents import Prepared
from .errors import PreparationError, QueueUnavailable, StoreUnavailable
from .scripts import ScriptCall

MAX_SWEPT_CLAIMS = 200

MAX_AGED_PER_LANE = 5
"""The most pieces of work that move up from one lane in RETRY_AGE_SECONDS."""

_preparing_log = logging.getLogger("tarry.preparing")

_sweeping_log = logging.getLogger("tarry.sweeping")

Preparer = Callable[[], Mapping[str, Prepared]]


def prepare(work_key: str, token: int, preparer: Preparer) -> None:
    """Runs the preparer if this copy of the work is the one that starts. Does not raise the preparer's errors.

    Raises StoreUnavailable if `state` cannot be asked for the start.
    The content, or the failure record, is written before the claim ends.
    """
    task = work_key.partition(":")[0]
    reply = stores.execute_patiently(claims.start_call(work_key, token, uuid4().hex))
    if reply == claims.SKIPPED:
        metrics.count_skip(task)
    if reply != claims.STARTED:
        return  # another copy got there first, the claim is gone, or no client waits any longer
    began = time.monotonic()
    try:
        with _keep_lease(work_key, token):
            _store_contents(preparer(), token, began)
        took = time.monotonic() - began
        _end_claim(task, "stored", took, claims.finish_stored_call(work_key, token, took))
    except PreparationError as error:
        _fail_preparation(task, work_key, token, began, error)
    except StoreUnavailable as error:
        _preparing_log.warning("refused by a store", extra={"work": work_key, "error": str(error)})
        _fail_preparation(task, work_key, token, began, PreparationError("The content could not be stored."))
    except Exception:  # noqa: BLE001 - the edge of a worker's process: any error is a failed preparation
        _preparing_log.exception("preparation failed", extra={"work": work_key})
        _fail_preparation(task, work_key, token, began, PreparationError("The preparation failed."))


def _store_contents(prepared: Mapping[str, Prepared], token: int, began: float) -> None:
    """Stores all contents of the work in one trip, each behind its fence (reply 0: newer content is there)."""
    stored_at, cost_seconds = datetime.now(UTC), time.monotonic() - began
    calls = [contents.store_call(key, content, token, stored_at, cost_seconds) for key, content in prepared.items()]
    stores.execute_all_patiently("cache", calls)


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


@contextmanager
def _keep_lease(work_key: str, token: int) -> Iterator[None]:
    """Renews the lease after every third of it, in its own thread, for at most RETRY_MAX_PREPARE_SECONDS."""
    ended = Event()
    thread = Thread(target=_renew_lease_until, args=(ended, work_key, token), daemon=True, name="lease")
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _renew_lease_until(ended: Event, work_key: str, token: int) -> None:
    last = time.monotonic() + conf().RETRY_MAX_PREPARE_SECONDS
    while not ended.wait(conf().RETRY_LEASE_SECONDS / 3) and time.monotonic() < last:
        try:
            if stores.execute_patiently(claims.renew_call(work_key, token)) != 1:
                return  # another worker has the claim by now
        except StoreUnavailable:
            continue


def sweep_claims() -> int:
    """Sweeps the due claims, in one pass. Returns their number. Raises StoreUnavailable."""
    found = stores.execute_patiently(claims.sweep_call(MAX_SWEPT_CLAIMS))
    assert isinstance(found, list)
    for what, work_key, token, lane, spec in found:
        if what == b"lapsed":
            metrics.count_republication("given up")
            _sweeping_log.error("lost its worker twice", extra={"work": work_key.decode()})
            _fail_claim(work_key.decode(), int(token), PreparationError("The preparation ended its worker twice."))
        else:
            _republish("again", work_key.decode(), int(token), lane.decode(), spec)
    return len(found)


def age_lanes() -> int:
    """Moves the oldest work of lanes in which nothing starts one lane up. Returns how many. Raises StoreUnavailable."""
    moved = 0
    for name, lane in conf().RETRY_LANES.items() if conf().RETRY_AGE_SECONDS else ():
        if up := lane.get("up"):
            moved += _age_lane(name, up)
    return moved


def _age_lane(lane: str, up: str) -> int:
    found = stores.execute_patiently(claims.age_call(lane, up, MAX_AGED_PER_LANE))
    assert isinstance(found, list)
    for work_key, token, spec in found:
        _republish("aged", work_key.decode(), int(token), up, spec)
    return len(found)


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
