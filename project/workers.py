"""Which queues have a living worker: each worker signs in with every heartbeat, about every two seconds."""

import logging
from collections.abc import Sequence
from functools import cache

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

SIGN_IN_SECONDS = 10

_log = logging.getLogger("tarry.workers")


def sign_in(queues: Sequence[str]) -> None:
    """Notes in `state` that this process consumes the queues. A failure is logged: the next heartbeat follows."""
    try:
        with _state().pipeline(transaction=False) as pipeline:
            for queue in queues:
                pipeline.set(_key(queue), 1, ex=SIGN_IN_SECONDS)
            pipeline.execute()
    except redis.RedisError as error:
        _log.warning("could not sign in", extra={"error": str(error)})


def missing(queues: Sequence[str]) -> list[str]:
    """The queues that nobody has consumed for SIGN_IN_SECONDS. Raises redis.RedisError."""
    found = _state().mget([_key(queue) for queue in queues])
    return [queue for queue, mark in zip(queues, found, strict=True) if mark is None]


def _key(queue: str) -> str:
    return f"workers:{queue}"


@cache
def _state() -> "redis.Redis":
    timeout = settings.RETRY_REDIS_TIMEOUT
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0)
    )
