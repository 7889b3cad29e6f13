"""Locks in `state`, for what one process at a time is enough for. Two at once do no harm: no lock keeps them out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import redis
from redis.exceptions import RedisError

from retry import connections
from retry.errors import StoreUnavailable

_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"
_KEEP = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('EXPIRE', KEYS[1], ARGV[2]) end"


class Lock:
    """A lock that is held."""

    def __init__(self, name: str, token: str, seconds: int) -> None:
        self._name, self._token, self._seconds = name, token, seconds

    def keep(self) -> None:
        """Holds it for as long again, from now on. Raises StoreUnavailable."""
        with state() as client:
            client.eval(_KEEP, 1, self._name, self._token, self._seconds)


@contextmanager
def held(name: str, seconds: int) -> Iterator[Lock | None]:
    """The lock, or None where somebody has it. Who dies with it holds it for so long at the most.

    Raises StoreUnavailable.
    """
    token = uuid4().hex
    with state() as client:
        ours = bool(client.set(name, token, nx=True, ex=seconds))
    try:
        yield Lock(name, token, seconds) if ours else None
    finally:
        if ours:
            with state() as client:
                client.eval(_RELEASE, 1, name, token)


def alone(name: str, seconds: int, work: Callable[[], int]) -> int:
    """What the work returns; 0, without it, while somebody else is at it. Raises StoreUnavailable, and what it does."""
    with held(name, seconds) as lock:
        return 0 if lock is None else work()


@contextmanager
def state() -> Iterator[redis.Redis]:
    """`state`, patiently. Raises StoreUnavailable."""
    try:
        yield connections.patient_client("state")
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
