"""Main's worker: refuses late requests before any work, reads all of a body, and ends when a successor answers."""

import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Semaphore
from unittest.mock import Mock

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import TConn
from pytest_django import Settings

from project import main_worker
from project.main_http import EncodedRequestParser
from project.main_worker import SheddingWorker, SucceededWorker

NOW = 1_000_000.0
LATE = f"{NOW - main_worker.MAX_WAITED_SECONDS - 0.001:.3f}"
REFUSED = "HTTP/1.1 503 Service Unavailable"
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
    front, main = pair
    front.sendall(sent)
    assert main_worker.refuse_late(main, NOW)
    main.close()
    head, _, body = front.makefile("rb").read().partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines), body


def test_a_request_that_came_long_ago_is_told_to_come_again(pair: Pair) -> None:
    status, fields, body = answer(pair, request(LATE))
    assert (status, fields["Retry-After"]) == (REFUSED, "1")
    assert (fields["Cache-Control"], fields["Connection"]) == ("no-store", "close")
    assert (int(fields["Content-Length"]), fields["Content-Type"]) == (len(body), "application/problem+json")


@pytest.mark.parametrize("sent", ["Sec-Fetch-Mode: navigate", "Accept: text/html", "accept: text/html,*/*;q=0.8"])
def test_a_person_is_told_so_on_a_page(pair: Pair, sent: str) -> None:
    status, fields, body = answer(pair, request(LATE, more=f"{sent}\r\n"))
    assert (status, fields["Content-Type"]) == (REFUSED, "text/html; charset=utf-8")
    assert fields["Vary"] == "Accept, Sec-Fetch-Mode"
    assert int(fields["Content-Length"]) == len(body)
    assert b'http-equiv="refresh"' in body


@pytest.mark.parametrize("line", [b"GET /a\x01 HTTP/1.1", "GET\u00e9 / HTTP/1.1".encode(), b"GET / HTTP/1.1\xe9"])
def test_what_is_malformed_is_refused_by_a_problem(pair: Pair, line: bytes) -> None:
    front, main = pair
    front.sendall(line + b"\r\nHost: site\r\n\r\n")
    worker = OneThread()
    try:
        with pytest.raises(ParseException) as caught:
            next(EncodedRequestParser(Config(), main, ("127.0.0.1", 1)))
        worker.log = Mock()
        worker.handle_error(None, main, ("", -1), caught.value)
        main.close()
        head, _, body = front.makefile("rb").read().partition(b"\r\n\r\n")
    finally:
        worker.end()
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in head
    assert b"Access-Control-Allow-Origin: *" in head
    assert json.loads(body)["status"] == 400


@pytest.mark.parametrize(
    ("sent", "has_body"),
    [
        pytest.param(request(LATE, "HEAD"), False, id="a HEAD"),
        pytest.param(request(LATE, more="Cookie: " + 60_000 * "c" + "\r\n"), True, id="many fields of the client"),
        pytest.param(request(LATE, more=f"X-Front-Since: {NOW:.3f}\r\n"), True, id="the client's own time"),
        pytest.param(request(LATE, more="Content-Length: 4\r\n") + b"body", True, id="more behind the request"),
    ],
)
def test_only_the_fields_of_the_front_count(pair: Pair, sent: bytes, has_body: bool) -> None:
    status, _, body = answer(pair, sent)
    assert (status, body != b"") == (REFUSED, has_body)


JUST_IN_TIME = f"{NOW - main_worker.MAX_WAITED_SECONDS:.3f}"


@pytest.mark.parametrize(
    "sent",
    [
        *map(request, (JUST_IN_TIME, f"{NOW:.3f}", f"{NOW + 3600:.3f}", None, "", "soon")),
        pytest.param(request(LATE, "POST"), id="a request that changes something"),
        pytest.param(b"", id="nothing so far"),
    ],
)
def test_all_other_requests_are_left_to_be_answered(pair: Pair, sent: bytes) -> None:
    front, main = pair
    front.sendall(sent)
    assert not main_worker.refuse_late(main, NOW)
    assert not sent or main.recv(1 << 16) == sent


@pytest.mark.parametrize(("waited", "is_refused"), [(0.0, False), (main_worker.MAX_WAITED_SECONDS + 0.1, True)])
def test_the_clock_of_another_machine_says_nothing_about_a_request(pair: Pair, waited: float, is_refused: bool) -> None:
    front, main = pair
    for since in (LATE, f"{NOW + 30:.3f}"):
        front.sendall(request(since))
        assert main_worker.refuse_late(main, NOW, waited) is is_refused
        main.setblocking(False)
        with suppress(BlockingIOError):
            main.recv(1 << 16)


@pytest.mark.parametrize(
    ("client", "fronts", "is_front"),
    [
        ("", (), True),
        (("127.0.0.1", 1), (), False),
        (("10.0.0.9", 1), ("10.0.0.0/24",), True),
        (("::ffff:10.0.0.9", 1, 0, 0), ("10.0.0.0/24",), True),
        (("10.0.1.9", 1), ("10.0.0.0/24", "10.0.2.1"), False),
    ],
)
def test_only_fronts_are_answered_by_tcp(
    settings: Settings, client: object, fronts: tuple[str, ...], is_front: bool
) -> None:
    settings.FRONTS = fronts
    assert main_worker.is_of_front(client) is is_front


def test_another_machine_is_refused_at_once_and_reads_so(pair: Pair, settings: Settings) -> None:
    settings.FRONTS = ("10.0.0.0/24",)
    front, main = pair
    worker = OneThread()
    worker.nr_conns = 1
    try:
        worker.enqueue_req(TConn(worker.cfg, main, ("10.0.1.9", 1), ("10.0.0.1", 8100)))
        front.settimeout(5)
        assert front.recv(1 << 16).startswith(b"HTTP/1.1 403 Forbidden\r\n")
        front.sendall(request(None))
        assert worker.nr_conns == 1
        worker._close_refused(time.monotonic() + 1)
        assert (worker.nr_conns, main.fileno()) == (0, -1)
    finally:
        worker.end()


def test_a_client_that_has_hung_up_is_refused_quietly(pair: Pair) -> None:
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
        assert come(worker, ends, late).recv(1 << 16).startswith(b"HTTP/1.1 503 ")  # at once
        assert (worker.seen, worker.nr_conns) == ([], 0)
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


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "main.sock"))
        yield one


@pytest.fixture
def born(listening: socket.socket) -> Iterator[Callable[[int], SucceededWorker]]:
    with ExitStack() as ends:

        def make(age: int) -> SucceededWorker:
            worker = SucceededWorker(age, 0, [listening], None, 30, Config(), None)
            worker.method_queue.init()
            ends.callback(worker.method_queue.close)
            ends.callback(worker.tmp.close)
            return worker

        yield make


@pytest.fixture
def first(born: Callable[[int], SucceededWorker]) -> SucceededWorker:
    """The first worker of its instance, which answers."""
    worker = born(1)
    main_worker.AGES.share()
    main_worker.note_worker_ready(worker)
    return worker


def told_to_end(worker: SucceededWorker) -> bool:
    worker.handle_exit(15, None)
    worker.notify()
    return not worker.alive


@pytest.mark.parametrize("is_told", [True, False])
def test_a_worker_that_is_told_to_end_does_so_as_soon_as_a_younger_one_answers(
    first: SucceededWorker, born: Callable[[int], SucceededWorker], is_told: bool
) -> None:
    assert not (is_told and told_to_end(first))
    main_worker.note_worker_ready(born(2))
    first.notify()
    assert first.alive is not is_told


def test_each_waits_for_a_successor_of_its_own(born: Callable[[int], SucceededWorker]) -> None:
    main_worker.AGES.share()
    older, younger = born(3), born(4)
    for worker in (older, younger):
        worker.cfg.set("workers", 2)
        main_worker.note_worker_ready(worker)
    assert [told_to_end(older), told_to_end(younger)] == [False, False]
    main_worker.note_worker_ready(born(5))
    assert [told_to_end(older), told_to_end(younger)] == [True, False]
    main_worker.note_worker_ready(born(6))
    assert told_to_end(younger)


@pytest.mark.parametrize("reason", ["its instance ends", "no successor comes"])
def test_a_worker_ends_without_a_successor(
    first: SucceededWorker, listening: socket.socket, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "its instance ends":
        Path(listening.getsockname()).unlink()
    else:
        monkeypatch.setattr(main_worker, "SUCCESSOR_PATIENCE_SECONDS", -1)
    assert told_to_end(first)
