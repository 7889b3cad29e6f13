"""Main's threads for the requests of this machine's front: each thread accepts the connection that it answers.

gunicorn's loop would accept a connection and hand it over: two threads would be woken, one after the other, before
anybody looks at the request, and one more after its answer. Here one thread at a time waits for a connection. Once it
has one, it lets the next thread wait, and answers. Meanwhile further connections wait in the listening socket.
"""

import logging
import os
import select
import time
from collections.abc import Callable, Sequence
from socket import socket
from threading import Lock, Thread

PAUSE_SECONDS = 0.1
"""The pause after a connection that could not be accepted: there may be too many open files."""

_log = logging.getLogger("gunicorn.error")


class LocalThreads:
    """`number` threads that accept from the listening sockets.

    `settles` is asked about each connection first, and returns True if it has answered it, which it does at once.
    `answer` may take long; it gets the connection and the address of the listening socket, and closes the connection.
    An error of either ends the connection, and no thread.
    """

    def __init__(
        self,
        listening: Sequence[socket],
        number: int,
        settles: Callable[[socket], bool],
        answer: Callable[[socket, str], None],
    ) -> None:
        self._listening = {one.fileno(): (one, one.getsockname()) for one in listening}
        self._settles = settles
        self._answer = answer
        self._turn = Lock()
        self._is_ending = False
        self._ended, self._end = os.pipe()
        self._poll = select.poll()
        for descriptor in (self._ended, *self._listening):
            self._poll.register(descriptor, select.POLLIN)
        self._threads = [Thread(target=self._answer_forever, daemon=True) for _ in range(number if listening else 0)]

    def start(self) -> None:
        for listening, _ in self._listening.values():
            listening.setblocking(False)
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Accepts no more connections. Answers go on."""
        if not self._is_ending:
            self._is_ending = True
            os.close(self._end)  # wakes the thread that waits

    def join(self, until: float, while_waiting: Callable[[], None]) -> None:
        """Waits for the last answers until that moment (monotonic) at the most."""
        while (left := [thread for thread in self._threads if thread.is_alive()]) and time.monotonic() < until:
            while_waiting()
            left[0].join(min(1.0, max(0.0, until - time.monotonic())))

    def _answer_forever(self) -> None:
        while (taken := self._take()) is not None:
            connection, address = taken
            try:
                self._answer(connection, address)
            except (Exception, SystemExit):  # noqa: BLE001  the edge of a thread: others must be answered
                _log.exception("a connection could not be answered")
                connection.close()

    def _take(self) -> tuple[socket, str] | None:
        """Waits for a connection that is to be answered. Returns None when no more are accepted."""
        with self._turn:
            while not self._is_ending:
                for descriptor, _ in self._poll.poll():
                    listening, address = self._listening.get(descriptor, (None, ""))
                    if listening and not self._is_ending and (connection := self._accept(listening)):
                        return connection, address
        return None

    def _accept(self, listening: socket) -> socket | None:
        """Returns a connection that was not settled at once; None if there is none."""
        try:
            connection, _ = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process has it
            return None
        except OSError:
            if not self._is_ending:
                _log.exception("a connection could not be accepted")
                time.sleep(PAUSE_SECONDS)
            return None
        try:
            if not self._settles(connection):
                return connection
        except Exception:  # noqa: BLE001  as in _answer_forever()
            _log.exception("a connection could not be settled")
        connection.close()
        return None
