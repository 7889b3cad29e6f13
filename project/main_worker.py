"""The gunicorn worker class of main: replaces old workers by ready ones, and sheds late requests.

Handover: by itself gunicorn ends the old workers as soon as the new ones are born. No worker would answer while
those load the application: a second or two, or longer than the front waits on a busy machine.

Shedding: under more load than main can carry, requests wait to be accepted, and the front gives each up after a
while. Work on those would leave no time for the others. There are many of them then, and parsing alone would
cost much of main's capacity: main looks for the front's field in the received bytes.
"""

import math
import mmap
import os
import re
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ
from socket import MSG_DONTWAIT, MSG_PEEK, socket
from tempfile import TemporaryFile
from types import FrameType
from typing import Any

from gunicorn import util
from gunicorn.http import wsgi
from gunicorn.http.errors import InvalidResponseHeader, InvalidResponseHeaderName, ParseException
from gunicorn.workers.gthread import TConn, ThreadWorker

from retry import metrics
from retry.conf import conf
from retry.headers import MALFORMED_ANSWER, NO_FRONT_ANSWER, is_trusted_proxy

from . import shared_answers
from .local_threads import LocalThreads
from .main_http import EncodedRequestParser, JoinedResponse

SUCCESSOR_PATIENCE_SECONDS = 60.0
"""A worker that is told to end does so after this time even without a successor."""

_AGE_STRUCT = struct.Struct("q")


class WorkerAges:
    """The age, as gunicorn counts, of the youngest worker that answers. A master and all its workers share it."""

    def __init__(self) -> None:
        self.descriptor = -1
        self._memory: mmap.mmap | None = None

    def share(self) -> None:
        """Makes the memory that this process shares with its children from now on."""
        with TemporaryFile(buffering=0) as file:
            file.truncate(_AGE_STRUCT.size)
            self.attach(os.dup(file.fileno()))

    def attach(self, descriptor: int) -> None:
        """Takes the memory that another process shares."""
        self.descriptor, self._memory = descriptor, mmap.mmap(descriptor, _AGE_STRUCT.size)

    def note(self, age: int) -> None:
        assert self._memory is not None
        self._memory[:] = _AGE_STRUCT.pack(max(age, self.youngest()))

    def youngest(self) -> int:
        assert self._memory is not None
        return int(_AGE_STRUCT.unpack(self._memory[:])[0])


AGES = WorkerAges()


SWITCH_SECONDS = 0.0005
"""The longest wait of a thread for one that computes. A request waits after each call of Redis: Python's own 5 ms would
add up while the worker takes a crowd in.
"""


def note_worker_ready(worker: Any) -> None:
    AGES.note(worker.age)
    sys.setswitchinterval(SWITCH_SECONDS)


class SucceededWorker(ThreadWorker):  # type: ignore[misc]  # an untyped library
    """A worker that waits for a successor before it ends, unless the whole instance ends.

    gunicorn repeats its signal each second.
    """

    _told_at: float | None = None
    _successor = 0
    """The age of the worker that replaces it. Workers that are told together go one by one, the oldest first."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._told_at is None:
            self._told_at, youngest = time.monotonic(), AGES.youngest()
            self._successor = youngest + max(1, self.age - youngest + self.cfg.workers)
        if self._may_end():
            super().handle_exit(sig, frame)

    def notify(self) -> None:
        super().notify()
        if self.alive and self._told_at is not None and self._may_end():
            super().handle_exit(0, None)

    def _may_end(self) -> bool:
        assert self._told_at is not None
        has_successor = AGES.youngest() >= self._successor
        return has_successor or not self._is_reached() or time.monotonic() - self._told_at > SUCCESSOR_PATIENCE_SECONDS

    def _is_reached(self) -> bool:
        """Tells whether requests can still come: gunicorn removes its sockets before it ends all workers."""
        names = [listening.getsockname() for listening in self.sockets]
        return any(isinstance(name, str) and Path(name).exists() for name in names)


MAX_WAITED_SECONDS = 3.0
"""The front waits for content for five seconds: a request that is begun now has two of them left."""
LATE_RETRY_SECONDS = 1
PEEKED_BYTES = 8192
"""The front's own fields come before those of the client."""
MAX_SENT_BYTES = 1 << 18
"""More than the front sends before main reads."""

REQUESTS_PER_THREAD = 2
"""Requests for each thread: the one that it answers, and the next."""

_NAVIGATION = re.compile(
    rb"\r\n(?:sec-fetch-mode:[ \t]*navigate|accept:[ \t]*text/html[ \t]*(?:,[^\r\n]*)?)\r\n", re.IGNORECASE
)
"""Only the first range of Accept counts here. Browsers send Sec-Fetch-Mode to https and to this machine alone."""
_LATE_PROBLEM = (
    b'{"type":"about:blank","title":"Service Unavailable","status":503,'
    b'"detail":"Too much is asked of this site just now. Try again later."}'
)
_LATE_PAGE = (
    b'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    b'<meta http-equiv="refresh" content="5"><title>Not available now</title><h1>Not available now</h1>'
    b"<p>Too much is asked of this site just now. This page loads again by itself.</p></html>"
)
_LATE_HEAD = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Content-Type: %s\r\n"
    b"Content-Length: %d\r\n"
    b"Cache-Control: no-store\r\n"
    b"Vary: Accept, Sec-Fetch-Mode\r\n"
    b"Content-Security-Policy: default-src 'none'; base-uri 'none'; frame-ancestors 'none'\r\n"
    b"Retry-After: %d\r\n"
    b"Access-Control-Allow-Origin: *\r\n"
    b'Cache-Status: Tarry; fwd=miss; detail="waited too long"\r\n'
    b"Connection: close\r\n\r\n"
)


def refuse_late(connection: socket, now: float | None = None, waited_seconds: float | None = None) -> bool:
    """Refuses a GET or HEAD whose X-Front-Since is long ago. Returns True if it did: then the connection is done.

    All other methods may change something and are never refused, nor are requests without the field. `now` is in Unix
    seconds: the front's clock is that of this machine. Requests of other machines are told by their wait in line here.
    """
    begin = _peek(connection)
    if not _is_late(begin, time.time() if now is None else now, waited_seconds):
        return False
    metrics.count_answer("main", "late")
    _send_answer(connection, _late_answer(begin))
    return True


def answer_shared(connection: socket) -> bool:
    """Gives a request the answer that it shares with others. Returns True if it did: then the connection is done."""
    if shared_answers.ANSWERS.is_empty():
        return False
    if (answer := shared_answers.ANSWERS.find(_peek(connection))) is None:
        return False
    metrics.count_shared_answer()
    _send_answer(connection, answer)
    return True


def _peek(connection: socket) -> bytes:
    """The beginning of what has come; empty if nothing has."""
    try:
        return connection.recv(PEEKED_BYTES, MSG_PEEK | MSG_DONTWAIT)
    except OSError:
        return b""


def _late_answer(begin: bytes) -> bytes:
    """The refusal of a request that begins so: a page for a browser's navigation, else a problem."""
    is_shown = _NAVIGATION.search(begin)
    body, kind = (_LATE_PAGE, b"text/html; charset=utf-8") if is_shown else (_LATE_PROBLEM, b"application/problem+json")
    head = _LATE_HEAD % (kind, len(body), LATE_RETRY_SECONDS)
    return head if begin.startswith(b"HEAD ") else head + body


def _is_late(begin: bytes, now: float, waited_seconds: float | None) -> bool:
    since = shared_answers.SINCE.search(begin)
    if since is None or not begin.startswith((b"GET ", b"HEAD ")):
        return False
    return (now - float(since[1]) if waited_seconds is None else waited_seconds) > MAX_WAITED_SECONDS


def _send_answer(connection: socket, answer: bytes) -> None:
    """Sends the answer. Reads the received bytes first: else closing the connection would discard the answer."""
    try:
        with suppress(BlockingIOError):
            connection.recv(MAX_SENT_BYTES, MSG_DONTWAIT)
        connection.sendall(answer)
    except OSError:
        return  # the front has given it up


def _is_closed_by_front(connection: socket) -> bool:
    try:
        return not connection.recv(1, MSG_PEEK | MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


REFUSED_SECONDS, MAX_REFUSED = 1.0, 100
"""How long, and how many at the most, refused connections stay open for their clients to read the answer."""


def is_remote(client: object) -> bool:
    """Tells whether a connection came by TCP. gunicorn names its client by a tuple then."""
    return isinstance(client, tuple)


def is_of_front(client: Any) -> bool:
    """Tells whether a connection is a front's: by this machine's socket, or from one of FRONTS."""
    return not is_remote(client) or is_trusted_proxy(client[0], conf().FRONTS)


class SheddingWorker(SucceededWorker):
    """Main's worker class. Threads of its own answer this machine's front.

    Connections by TCP wait in line here: to have a thread of gunicorn's refuse one would cost twice as much.
    """

    _accepting: bool
    _local: LocalThreads | None = None

    def init_process(self) -> None:
        wsgi.Response = JoinedResponse
        # gunicorn reads some twenty settings for a request, each by several calls.
        self.cfg.__dict__.update({name: setting.get() for name, setting in self.cfg.settings.items()})
        super().init_process()

    def run(self) -> None:
        local = [one for one in self.sockets if not is_remote(one.getsockname())]
        self._local = LocalThreads(local, self.cfg.threads, self._settles, self._answer)
        self._local.start()
        try:
            super().run()
        finally:
            self.alive = False  # also if the parent is gone
            self._local.end()
        self._local.join(time.monotonic() + self.cfg.graceful_timeout, self.notify)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.alive:  # else it is ending
            super().handle_exit(sig, frame)

    def handle_request(self, req: Any, conn: Any) -> Any:
        if not is_remote(conn.client):
            req.force_close()  # the front would not use the connection again
        return super().handle_request(req, conn)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Has gunicorn's loop accept what comes by TCP, and nothing else."""
        if not self.alive and self._local:
            self._local.end()
        if enabled == self._accepting:
            return
        self._accepting = enabled
        for listening in self.sockets:
            if not is_remote(listening.getsockname()):
                continue
            if enabled:
                listening.setblocking(False)
                self.poller.register(listening, EVENT_READ, self.accept)
            else:
                self.poller.unregister(listening)

    def _settles(self, connection: socket) -> bool:
        """Tells whether a connection of this machine's front was settled at once."""
        return refuse_late(connection) or answer_shared(connection)

    def _answer(self, connection: socket, address: str) -> None:
        """Answers the one request of a connection of this machine's front."""
        conn = TConn(self.cfg, connection, "", address)
        conn.parser = EncodedRequestParser(self.cfg, connection, "")
        conn.data_ready = bool(_peek(connection))  # else its thread would set up a wait for it
        self.handle(conn)
        with suppress(OSError):  # it is closed already after a failure amid the answer
            conn.close(graceful=True)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._line: deque[tuple[Any, float]] = deque()
        self._refused: deque[tuple[Any, float]] = deque()
        self._handed_out = 0

    def enqueue_req(self, conn: Any) -> None:
        if conn.initialized and _is_closed_by_front(conn.sock):
            self._close(conn)
        elif not conn.initialized and not is_of_front(conn.client):
            self._refuse(conn)
        else:
            conn.parser = conn.parser or EncodedRequestParser(self.cfg, conn.sock, conn.client)
            self._line.append((conn, time.monotonic()))
            self._hand_out()

    def notify(self) -> None:
        super().notify()
        self._close_refused(time.monotonic() - REFUSED_SECONDS)

    def _refuse(self, conn: Any) -> None:
        """Refuses a connection of no front. It ends a moment later: at once, its client might not read the answer."""
        if len(self._refused) >= MAX_REFUSED:
            self._close_refused(math.inf)
        _send_answer(conn.sock, NO_FRONT_ANSWER)
        self._refused.append((conn, time.monotonic()))

    def _close_refused(self, before: float) -> None:
        while self._refused and self._refused[0][1] < before:
            self._close(self._refused.popleft()[0])

    def finish_request(self, conn: Any, fs: Any) -> None:
        self._handed_out -= 1
        super().finish_request(conn, fs)
        self._hand_out()

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answers a malformed request by a problem; its text, which may hold secrets, is not logged."""
        of_our_own = isinstance(exc, InvalidResponseHeader | InvalidResponseHeaderName)
        if isinstance(exc, ParseException) and not of_our_own:
            self.log.warning("a malformed request: %s", type(exc).__name__)
            with suppress(OSError):  # the front has given it up
                util.write_nonblock(client, MALFORMED_ANSWER)
        else:
            super().handle_error(req, client, addr, exc)

    def _hand_out(self) -> None:
        """Hands out enough connections for no thread to wait for the next one."""
        while self._line and self._handed_out < REQUESTS_PER_THREAD * self.cfg.threads:
            conn, since = self._line.popleft()
            waited = time.monotonic() - since if is_remote(conn.client) else None
            if refuse_late(conn.sock, waited_seconds=waited) or (waited is None and answer_shared(conn.sock)):
                self._close(conn)
            else:
                self._handed_out += 1
                conn.data_ready = bool(_peek(conn.sock))  # else its thread would set up a wait for it
                super().enqueue_req(conn)

    def _close(self, conn: Any) -> None:
        self.nr_conns -= 1
        conn.close()
