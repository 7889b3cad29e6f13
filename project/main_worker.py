"""Refuses at once what has waited for main for so long that nobody has anything of it any more.

Under more load than main can carry, requests wait to be accepted. The front gives each of them up after a while; to
work on those would leave no time for the others, and nobody would be answered. There are many of them then, so that
even to parse them would cost much of what main can do: the front's word is looked for in the bytes that have come.
"""

import re
import time
from collections import deque
from socket import MSG_DONTWAIT, MSG_PEEK, socket
from typing import Any

from project.succession import SucceededWorker
from retry import observing

MOST_SECONDS = 3.0
"""Of the five that the front waits for content: what is begun now has two of them left."""
RETRY_SECONDS = 1
LOOKED_AT_BYTES = 8192
"""The front's own fields come before those of the client."""
SENT_BYTES = 1 << 18
"""More than what the front sends before anybody reads."""

EACH_THREAD = 2
"""Requests: the one that it answers, and the next."""

_SINCE = re.compile(rb"\r\nX-Front-Since: ([0-9]{1,12}\.[0-9]{3})\r\n")
_BODY = (
    b'{"type":"about:blank","title":"Service Unavailable","status":503,'
    b'"detail":"Too much is asked of this site just now. Try again later."}'
)
_HEAD = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Content-Type: application/problem+json\r\n"
    b"Content-Length: %d\r\n"
    b"Cache-Control: no-store\r\n"
    b"Retry-After: %d\r\n"
    b"Access-Control-Allow-Origin: *\r\n"
    b'Cache-Status: Tarry; fwd=miss; detail="waited too long"\r\n'
    b"Connection: close\r\n\r\n"
) % (len(_BODY), RETRY_SECONDS)


def refused(connection: socket, now: float | None = None) -> bool:
    """Whether a GET or HEAD has come whose X-Front-Since is long ago: it is answered, and nothing else comes there.

    What changes something is always done: all other methods, and that of which the front says nothing. `now` in Unix
    seconds: the front's clock is that of this machine.
    """
    try:
        begin = connection.recv(LOOKED_AT_BYTES, MSG_PEEK | MSG_DONTWAIT)
    except OSError:
        return False
    if not _is_late(begin, time.time() if now is None else now):
        return False
    observing.answered("main", "late")
    _answer(connection, _HEAD if begin.startswith(b"HEAD ") else _HEAD + _BODY)
    return True


def _is_late(begin: bytes, now: float) -> bool:
    """Where nobody tells since when, nothing is late."""
    if not begin.startswith((b"GET ", b"HEAD ")):
        return False
    since = _SINCE.search(begin)
    return since is not None and now - float(since[1]) > MOST_SECONDS


def _answer(connection: socket, answer: bytes) -> None:
    """What has come is read first, or closing the connection would take the answer back."""
    try:
        connection.recv(SENT_BYTES, MSG_DONTWAIT)
        connection.sendall(answer)
    except OSError:
        return  # the front has given it up


def _is_over(connection: socket) -> bool:
    """Whether the front has closed it, as it does after each answer."""
    try:
        return not connection.recv(1, MSG_PEEK | MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


class SheddingWorker(SucceededWorker):
    """Main's worker class. Connections wait in line here: to have a thread refuse one would cost twice as much."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._line: deque[Any] = deque()
        self._handed_out = 0

    def enqueue_req(self, conn: Any) -> None:
        if conn.initialized and _is_over(conn.sock):
            self._close(conn)
        else:
            self._line.append(conn)
            self._hand_out()

    def finish_request(self, conn: Any, fs: Any) -> None:
        self._handed_out -= 1
        super().finish_request(conn, fs)
        self._hand_out()

    def _hand_out(self) -> None:
        """So many that no thread waits for the next one."""
        while self._line and self._handed_out < EACH_THREAD * self.cfg.threads:
            conn = self._line.popleft()
            if refused(conn.sock):
                self._close(conn)
            else:
                self._handed_out += 1
                super().enqueue_req(conn)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()
