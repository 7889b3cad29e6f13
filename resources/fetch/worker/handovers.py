"""Waits of the event loop for outcomes that tasks have handed over to threads of their own: see `find_handover`."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Lock

from retry.contents import Prepared

Contents = Mapping[str, Prepared]


class HandoverResults:
    """Brings results of threads to the event loop, many with one wake-up. For one event loop."""

    def __init__(self) -> None:
        self._ready: list[tuple[asyncio.Future[Contents], Future[Contents]]] = []
        self._lock = Lock()

    async def wait_for(self, handed: "Future[Contents]") -> Contents:
        """Returns the result of a future that a thread completes. Raises its error."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Contents] = loop.create_future()

        def bring(done: "Future[Contents]") -> None:
            with self._lock:
                self._ready.append((waiter, done))
                is_first = len(self._ready) == 1
            if is_first and not loop.is_closed():
                loop.call_soon_threadsafe(self._deliver)

        handed.add_done_callback(bring)
        return await waiter

    def _deliver(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, []
        for waiter, done in ready:
            if waiter.done():  # its job was cancelled
                continue
            if error := done.exception():
                waiter.set_exception(error)
            else:
                waiter.set_result(done.result())
