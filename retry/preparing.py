"""A worker's side: start the claim, keep its lease, prepare, store behind the fence, finish."""

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from uuid import uuid4

from . import claims, connections, contents, observing
from .conf import conf
from .contents import Prepared
from .errors import PreparationError, StoreUnavailable
from .scripts import Call

_log = logging.getLogger("tarry.preparing")

Preparer = Callable[[], Mapping[str, Prepared]]


def prepare(work_key: str, token: int, preparer: Preparer) -> None:
    """Runs the preparer if this copy of the work is the one that starts. Does not raise when it fails.

    Raises StoreUnavailable when `state` cannot be asked whether to start.
    The content, or the failure record, is written before the claim ends.
    """
    task = work_key.partition(":")[0]
    reply = connections.execute_patiently(claims.starting(work_key, token, uuid4().hex))
    if reply == claims.SKIPPED:
        observing.skipped(task)
    if reply != claims.STARTED:
        return  # another copy got there first, the claim is gone, or nobody waits any more
    began = time.monotonic()
    try:
        with _renewed(work_key, token):
            _store(preparer(), token, began)
        took = time.monotonic() - began
        _end(task, "stored", took, claims.finishing_stored(work_key, token, took))
    except PreparationError as error:
        _fail(task, work_key, token, began, error)
    except StoreUnavailable as error:
        _log.warning("refused by a store", extra={"work": work_key, "error": str(error)})
        _fail(task, work_key, token, began, PreparationError("The content could not be stored."))
    except Exception:  # noqa: BLE001 - the edge of a worker's process: whatever is raised is a failed preparation
        _log.exception("preparation failed", extra={"work": work_key})
        _fail(task, work_key, token, began, PreparationError("The preparation failed."))


def _store(prepared: Mapping[str, Prepared], token: int, began: float) -> None:
    """Stores all contents of the work in one trip, each behind its fence (0: newer content is there)."""
    stored_at, cost_seconds = datetime.now(UTC), time.monotonic() - began
    calls = [contents.writing(key, content, token, stored_at, cost_seconds) for key, content in prepared.items()]
    connections.execute_all_patiently("cache", calls)


def _fail(task: str, work_key: str, token: int, began: float, error: PreparationError) -> None:
    call = claims.finishing_failed(work_key, token, error, luck=random.random())
    _end(task, "failed", time.monotonic() - began, call)


def _end(task: str, outcome: str, seconds: float, finishing: Call) -> None:
    try:
        ended = connections.execute_patiently(finishing) == 1
    except StoreUnavailable as error:  # the lease lapses, and the sweeper has the work done again
        _log.error("could not finish", extra={"error": str(error)})
        ended = False
    observing.prepared(task, outcome if ended else "superseded", seconds)


@contextmanager
def _renewed(work_key: str, token: int) -> Iterator[None]:
    """Renews the lease every third of it from a thread of its own, for at most RETRY_MAX_PREPARE_SECONDS."""
    ended = Event()
    thread = Thread(target=_renew_until, args=(ended, work_key, token), daemon=True, name="lease")
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _renew_until(ended: Event, work_key: str, token: int) -> None:
    last = time.monotonic() + conf().RETRY_MAX_PREPARE_SECONDS
    while not ended.wait(conf().RETRY_LEASE_SECONDS / 3) and time.monotonic() < last:
        try:
            if connections.execute_patiently(claims.renewing(work_key, token)) != 1:
                return  # the claim is somebody else's by now
        except StoreUnavailable:
            continue
