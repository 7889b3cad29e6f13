"""Locks in `state`, for work that one process at a time should do.

Locks are advisory: two holders at once do no harm.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import redis
from redis.exceptions import LockNotOwnedError
from redis.lock import Lock

from retry import stores


@contextmanager
def hold_lock(name: str, seconds: int) -> Iterator[Lock | None]:
    """Yields the lock, or None if another process has it. It lapses after `seconds` if its process dies.

    Raises StoreUnavailable.
    """
    with open_state() as client:
        lock = client.lock(name, timeout=seconds, blocking=False)
        ours = lock.acquire()
    try:
        yield lock if ours else None
    finally:
        if ours:
            with open_state(), suppress(LockNotOwnedError):  # it has lapsed, and another process may hold it
                lock.release()


def renew_lock(lock: Lock) -> None:
    """Holds the lock for its full time again, from now on. Does not take a lapsed one back. Raises StoreUnavailable."""
    with open_state(), suppress(LockNotOwnedError):
        lock.reacquire()


def run_alone(name: str, seconds: int, work: Callable[[], int]) -> int:
    """Does the work and returns its result; returns 0 if another process is doing it.

    Raises StoreUnavailable and the work's errors.
    """
    with hold_lock(name, seconds) as lock:
        return 0 if lock is None else work()


def hold_role(name: str, holder: str, seconds: int) -> bool:
    """Takes or keeps a role for so long. False if another holder has it. Raises StoreUnavailable.

    A holder that is started anew has its role at once, where a lock would first have to lapse.
    """
    with open_state() as client:
        if client.set(name, holder, nx=True, ex=seconds):
            return True
        return client.get(name) == holder.encode() and bool(client.expire(name, seconds))


MACHINE_SECONDS = 30
"""How long a machine has its name since it last said so."""


def hold_machine_name(machine: str, installation: str, address: str = "") -> bool:
    """Holds the name for this installation: machines find each other's files by it. As hold_role.

    Notes with it the address (host and port) at which the machine answers others, if it has one.
    """
    with open_state() as client:
        if client.get(machine_key(machine)) == installation.partition(".")[0].encode():
            # An earlier version held it by the installation's id alone.
            client.set(machine_key(machine), installation, ex=MACHINE_SECONDS)
    is_ours = hold_role(machine_key(machine), installation, MACHINE_SECONDS)
    if is_ours and address:
        with open_state() as client:
            client.set(machine_key(machine, "address"), address, ex=MACHINE_SECONDS)
    return is_ours


def machine_key(machine: str, part: str = "") -> str:
    """The key in `state` of a machine's name, or of something beside it, on the same server of a Cluster."""
    return f"{{machine:{machine}}}:{part}" if part else f"machine:{machine}"


@contextmanager
def open_state() -> Iterator[redis.Redis]:
    """Yields a patient client of `state`. Raises StoreUnavailable."""
    with stores.translate_errors("state"):
        yield stores.patient_client("state")
