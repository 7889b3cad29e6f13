"""Which queues have a living worker: each worker signs in with every heartbeat, about every two seconds."""

import logging
from collections.abc import Sequence

import redis

from retry import connections

SIGN_IN_SECONDS = 10

_log = logging.getLogger("tarry.workers")


def sign_in(queues: Sequence[str]) -> None:
    """Notes in `state` that this process consumes the queues. A failure is logged: the next heartbeat follows."""
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            for queue in queues:
                pipeline.set(_key(queue), 1, ex=SIGN_IN_SECONDS)
            pipeline.execute()
    except redis.RedisError as error:
        _log.warning("could not sign in", extra={"error": str(error)})


def missing(queues: Sequence[str]) -> list[str]:
    """The queues that nobody has consumed for SIGN_IN_SECONDS. Raises redis.RedisError."""
    found = connections.client("state").mget([_key(queue) for queue in queues])
    return [queue for queue, mark in zip(queues, found, strict=True) if mark is None]


def _key(queue: str) -> str:
    return f"workers:{queue}"
