"""Main refuses requests that have waited too long before any work is done; it reads all of a body with any answer."""

import io
import select
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from threading import Semaphore
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from gunicorn.config import Config
from gunicorn.workers.gthread import TConn

from project import main_worker
from project.main_worker import SheddingWorker

NOW = 1_000_000.0
LATE = f"{NOW - main_worker.MAX_WAITED_SECONDS - 0.001:.3f}"
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """The front's end of a connection, and main's."""
    front, main = socket.socketpair()
    with front, main:
        yield front, main


def request(since: str | None, method: str = "GET", *, more: str = "") -> bytes:
    told = "" if since is None else f"X-Front-Since: {since}\r\n"
    return f"{method} /tiles HTTP/1.1\r\nHost: site\r\n{told}Accept: */*\r\n{more}\r\n".encode()


def answer(pair: Pair, sent: bytes) -> tuple[str, dict[str, str], bytes]:
    """The status, fields and body of the refusal."""
    front, main = pair
    front.sendall(sent)
    assert main_worker.refuse_late(main, NOW)
    main.close()
    head, _, body = front.makefile("rb").read().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


def test_what_came_long_ago_is_told_to_come_again(pair: Pair) -> None:
    status, fields, body = answer(pair, request(LATE))
    assert (status, fields["Retry-After"]) == ("HTTP/1.1 503 Service Unavailable", "1")
    assert (fields["Cache-Control"], fields["Connection"]) == ("no-store", "close")
    assert (int(fields["Content-Length"]), fields["Content-Type"]) == (len(body), "application/problem+json")


def test_a_head_has_no_body(pair: Pair) -> None:
    status, _, body = answer(pair, request(LATE, "HEAD"))
    assert (status, body) == ("HTTP/1.1 503 Service Unavailable", b"")


@pytest.mark.parametrize("more", ["Cookie: " + 60_000 * "c" + "\r\n", f"X-Front-Since: {NOW:.3f}\r\n"])
def test_fields_of_the_client_come_behind_those_of_the_front(pair: Pair, more: str) -> None:
    assert answer(pair, request(LATE, more=more))[0] == "HTTP/1.1 503 Service Unavailable"


def test_what_is_sent_behind_a_request_does_not_break_its_answer(pair: Pair) -> None:
    sent = request(LATE, more="Content-Length: 4\r\n") + b"body"
    assert answer(pair, sent)[0] == "HTTP/1.1 503 Service Unavailable"


JUST_IN_TIME = f"{NOW - main_worker.MAX_WAITED_SECONDS:.3f}"


@pytest.mark.parametrize("since", [JUST_IN_TIME, f"{NOW:.3f}", f"{NOW + 3600:.3f}", None, "", "soon"])
def test_all_else_is_left_to_be_answered(pair: Pair, since: str | None) -> None:
    front, main = pair
    front.sendall(request(since))
    assert not main_worker.refuse_late(main, NOW)
    assert main.recv(1 << 16) == request(since)


def test_what_changes_something_is_done_however_long_it_waited(pair: Pair) -> None:
    front, main = pair
    front.sendall(request(LATE, "POST"))
    assert not main_worker.refuse_late(main, NOW)


def test_nothing_is_waited_for(pair: Pair) -> None:
    assert not main_worker.refuse_late(pair[1], NOW)


def test_who_has_hung_up_is_refused_quietly(pair: Pair) -> None:
    front, main = pair
    front.sendall(request(LATE))
    front.close()
    assert main_worker.refuse_late(main, NOW)


class OneThread(SheddingWorker):
    """Answers a request once it is let go on."""

    def __init__(self) -> None:
        settings = Config()
        settings.set("threads", 1)
        super().__init__(1, 0, [], None, 30, settings, None)
        self.tpool = self.get_thread_pool()
        self.method_queue.init()
        self.goes_on, self.seen = Semaphore(0), list[TConn]()

    def handle(self, conn: TConn) -> bool:
        self.seen.append(conn)
        return self.goes_on.acquire(timeout=10) and False

    def answer_next(self) -> None:
        self.goes_on.release()
        assert select.select([self.method_queue.fileno()], [], [], 10)[0]
        self.method_queue.run_callbacks(None)

    def end(self) -> None:
        self.goes_on.release(10)
        self.tpool.shutdown()
        self.method_queue.close()
        self.tmp.close()


@pytest.fixture
def worker() -> Iterator[OneThread]:
    one = OneThread()
    yield one
    one.end()


def come(worker: OneThread, ends: ExitStack, sent: bytes) -> socket.socket:
    """The front's end of a connection that the worker has accepted."""
    front, main = socket.socketpair()
    ends.enter_context(front)
    front.settimeout(10)
    front.sendall(sent)
    worker.nr_conns += 1
    worker.enqueue_req(TConn(worker.cfg, main, "", ""))
    return front


def test_what_becomes_late_in_line_costs_no_thread(worker: OneThread) -> None:
    in_time, late = request(f"{time.time() + 60:.3f}"), request(f"{time.time() - 60:.3f}")
    with ExitStack() as ends:
        begun = [come(worker, ends, in_time) for _ in range(main_worker.REQUESTS_PER_THREAD)]
        waits, other = come(worker, ends, late), come(worker, ends, in_time)
        assert worker.nr_conns == len(begun) + 2
        begun[0].shutdown(socket.SHUT_WR)
        worker.answer_next()
        assert waits.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
        assert worker.nr_conns == len(begun)
        for front in [*begun[1:], other]:
            front.shutdown(socket.SHUT_WR)
            worker.answer_next()
    assert (len(worker.seen), worker.nr_conns) == (len(begun) + 1, 0)


def test_what_is_late_when_it_comes_is_refused_at_once(worker: OneThread) -> None:
    with ExitStack() as ends:
        front = come(worker, ends, request(f"{time.time() - 60:.3f}"))
        assert front.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
    assert (worker.seen, worker.nr_conns) == ([], 0)


@pytest.fixture
def answered(pair: Pair, worker: OneThread) -> TConn:
    """A connection by which a request was answered before."""
    known = TConn(worker.cfg, pair[1], "", "")
    known.initialized, worker.nr_conns = True, 1
    return known


def test_what_the_front_has_closed_waits_in_no_line(worker: OneThread, pair: Pair, answered: TConn) -> None:
    front, main = pair
    front.close()
    worker.enqueue_req(answered)
    assert (worker.seen, worker.nr_conns, main.fileno()) == ([], 0, -1)


def test_another_request_by_the_same_connection_is_answered(worker: OneThread, pair: Pair, answered: TConn) -> None:
    pair[0].sendall(request(f"{time.time():.3f}"))
    worker.enqueue_req(answered)
    pair[0].shutdown(socket.SHUT_WR)
    worker.answer_next()
    assert (worker.seen, worker.nr_conns) == ([answered], 0)


def test_what_an_application_leaves_of_a_body_is_read_before_its_answer_is_sent() -> None:
    body = io.BytesIO(b"x" * 3_000_000)

    def refuse(environ: WSGIEnvironment, _: StartResponse) -> Iterable[bytes]:
        environ["wsgi.input"].read(10)
        return [b"no"]

    answer = main_worker.drain_bodies(refuse)({"wsgi.input": body}, lambda *_: lambda _: None)
    assert body.tell() == 3_000_000
    assert list(answer) == [b"no"]
