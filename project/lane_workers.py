"""The workers of queues: which queues have some, and how many a lane has on all machines."""

import logging
import time
from collections.abc import Sequence
from functools import partial

import redis

from resources import machines
from retry import lanes, stores
from retry.conf import conf
from retry.errors import StoreUnavailable

WORKER_SIGN_IN_SECONDS = 10

_worker_counts = machines.WorkerCounts(partial(stores.fast_client, "state"))

_log = logging.getLogger("tarry.workers")


def sign_in_queues(queues: Sequence[str]) -> None:
    """Notes in `state` that this process consumes the queues. A failure is logged: the next heartbeat follows."""
    try:
        with stores.fast_client("state").pipeline(transaction=False) as pipeline:
            for queue in queues:
                pipeline.set(_queue_key(queue), 1, ex=WORKER_SIGN_IN_SECONDS)
            pipeline.execute()
        for lane in set(queues) & conf().RETRY_LANES.keys():
            lanes.note_worker(lane)
    except (redis.RedisError, StoreUnavailable) as error:
        _log.warning("could not sign in", extra={"error": str(error)})


def list_unserved_queues(queues: Sequence[str]) -> list[str]:
    """The queues that no worker has consumed for WORKER_SIGN_IN_SECONDS. Raises redis.RedisError."""
    with stores.fast_client("state").pipeline(transaction=False) as pipeline:
        for queue in queues:
            pipeline.get(_queue_key(queue))
        found = pipeline.execute()
    return [queue for queue, mark in zip(queues, found, strict=True) if mark is None]


def count_lane_workers(lane: str) -> int:
    """Returns the number of the lane's workers on all living machines; 0 if it is not known, as without `state`."""
    return _worker_counts.count(lane, time.monotonic())


def _queue_key(queue: str) -> str:
    return f"workers:{queue}"
