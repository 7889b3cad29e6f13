"""Leases of running work, kept from outside the work's own thread, which may compute for long."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Thread

from . import claims, stores
from .conf import conf
from .errors import StoreUnavailable


class LeaseKeeper:
    """Renews the leases of this process after every third of them, each for at most RETRY_MAX_PREPARE_SECONDS.

    It has one thread: one for each work would take as long to start as a call of Redis.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forgets all leases, which are those of another process."""
        self._held: dict[tuple[str, int], tuple[float, float]] = {}  # the next renewal, and the last possible one
        self._changed = Condition()
        self._thread: Thread | None = None
        self._wakes_at = 0.0

    @contextmanager
    def keep(self, work_key: str, token: int) -> Iterator[None]:
        """Keeps the lease within the block."""
        now = time.monotonic()
        with self._changed:
            due = now + _renewal_seconds()
            self._held[work_key, token] = due, now + conf().RETRY_MAX_PREPARE_SECONDS
            if self._thread is None:
                self._thread = Thread(target=self._renew_forever, daemon=True, name="lease")
                self._thread.start()
            elif due < self._wakes_at:  # else it looks in time: to wake it now would delay the work
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._held.pop((work_key, token), None)

    def _renew_forever(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                self._wakes_at = min((due for due, _ in self._held.values()), default=now + _renewal_seconds())
                self._changed.wait(max(0, self._wakes_at - now))
                now = time.monotonic()
                due = [name for name, (moment, _) in self._held.items() if moment <= now]
            for name in due:
                self._renew(name, now)

    def _renew(self, name: tuple[str, int], now: float) -> None:
        try:
            is_ours = stores.execute_patiently(claims.renew_call(*name)) == 1
        except StoreUnavailable:
            is_ours = True  # for all that is known
        with self._changed:
            if (times := self._held.get(name)) is None:
                return
            if is_ours and now + _renewal_seconds() < times[1]:
                self._held[name] = now + _renewal_seconds(), times[1]
            else:
                del self._held[name]


def _renewal_seconds() -> float:
    return conf().RETRY_LEASE_SECONDS / 3


LEASES = LeaseKeeper()
os.register_at_fork(after_in_child=LEASES.forget)  # its thread does not go on there
