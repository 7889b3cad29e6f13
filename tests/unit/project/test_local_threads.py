"""Main's threads for this machine's front: who answers, who waits, how they end; alone, and in main's worker."""

import errno
import os
import socket
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from selectors import DefaultSelector
from threading import Semaphore, Thread, get_ident
from unittest.mock import Mock
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import pytest
from gunicorn.config import Config

from project import local_threads
from project.local_threads import LocalThreads
from project.main_worker import SheddingWorker

SETTLED, HELD = b"settled", b"held"
SECONDS = 10


class Answers:
    """Threads that settle, hold or answer what is sent to them. What is held is answered once it is let go."""

    def __init__(self, folder: Path, number: int) -> None:
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(folder / "main.sock"))
        self.listening.listen()
        self.let_go, self.seen = Semaphore(0), list[int]()
        self.ends = ExitStack()
        self.threads = LocalThreads([self.listening], number, self._settles, self._answer)
        self.threads.start()

    def _settles(self, connection: socket.socket) -> bool:
        if is_settled := connection.recv(100, socket.MSG_PEEK) == SETTLED:
            connection.sendall(b"at once")
            connection.close()
        return is_settled

    def _answer(self, connection: socket.socket, address: str) -> None:
        with connection:
            self.seen.append(get_ident())
            if connection.recv(100) == HELD:
                self.let_go.acquire(timeout=SECONDS)
            connection.sendall(address.encode())

    def send(self, sent: bytes) -> socket.socket:
        front = self.ends.enter_context(socket.socket(socket.AF_UNIX))
        front.settimeout(SECONDS)
        front.connect(self.listening.getsockname())
        front.sendall(sent)
        return front

    def join(self) -> int:
        """Waits for the threads. Returns the number of those that have not ended."""
        self.threads.join(time.monotonic() + SECONDS, lambda: None)
        return sum(thread.is_alive() for thread in self.threads._threads)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Answers]:
    answers = Answers(tmp_path, 2)
    with answers.listening, answers.ends:
        yield answers
        answers.let_go.release(10)
        answers.threads.end()
        assert answers.join() == 0


def test_the_thread_that_accepts_a_connection_answers_it_beside_others(two: Answers) -> None:
    held = two.send(HELD)
    address = two.listening.getsockname().encode()
    assert two.send(b"a").recv(100) == address
    two.let_go.release()
    assert held.recv(100) == address
    assert len(set(two.seen)) == 2


def test_what_is_settled_at_once_takes_no_thread_from_others(two: Answers) -> None:
    held = two.send(HELD)
    assert [two.send(SETTLED).recv(100) for _ in range(5)] == [b"at once"] * 5
    two.let_go.release()
    held.recv(100)
    assert len(two.seen) == 1


def test_connections_wait_in_the_socket_while_all_threads_answer(two: Answers) -> None:
    held = [two.send(HELD) for _ in range(2)]
    waits = two.send(b"a")
    waits.settimeout(0.2)
    with pytest.raises(TimeoutError):
        waits.recv(100)
    two.let_go.release(2)
    waits.settimeout(SECONDS)
    assert [one.recv(100) for one in (*held, waits)] == [two.listening.getsockname().encode()] * 3


def test_told_to_end_they_accept_nothing_more_and_give_the_last_answers(two: Answers) -> None:
    held = two.send(HELD)
    while not two.seen:
        time.sleep(0.01)
    two.threads.end()
    later = two.send(b"a")
    two.let_go.release()
    assert held.recv(100)
    assert two.join() == 0
    later.settimeout(0.2)
    with pytest.raises(TimeoutError):
        later.recv(100)


def test_a_connection_that_cannot_be_accepted_is_logged_and_others_are_answered(
    two: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_threads, "_log", log := Mock())
    accepted = two.listening.accept
    failures = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]
    listening = Mock(accept=lambda: accepted() if not failures else (_ for _ in ()).throw(failures.pop()))
    two.threads._listening[two.listening.fileno()] = listening, ""
    assert two.send(b"a").recv(100) == b""
    log.exception.assert_called_once()


@pytest.mark.parametrize("failing", ["_settles", "_answer"])
def test_an_error_ends_its_connection_and_no_thread(
    two: Answers, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    monkeypatch.setattr(local_threads, "_log", log := Mock())
    right = getattr(two.threads, failing)
    setattr(two.threads, failing, Mock(side_effect=RuntimeError))
    for _ in range(4):
        with suppress(ConnectionError):  # what it sends is not read
            assert two.send(b"a").recv(100) == b""
    assert log.exception.call_count == 4
    setattr(two.threads, failing, right)
    assert two.send(b"a").recv(100)


def test_without_a_listening_socket_there_are_no_threads() -> None:
    none = LocalThreads([], 8, Mock(), Mock())
    none.start()
    assert none._threads == []
    none.end()


class LocalWorker(SheddingWorker):
    """Runs in a thread. Answers this machine's front by the application."""

    def __init__(self, listening: socket.socket, application: WSGIApplication) -> None:
        settings = Config()
        settings.set("threads", 2)
        settings.set("graceful_timeout", 5)
        super().__init__(1, os.getppid(), [listening], None, 30, settings, Mock())
        self.wsgi, self.nr = application, 0
        self.tpool = self.get_thread_pool()
        self.poller = DefaultSelector()
        self.method_queue.init()
        self.address = listening.getsockname()
        self.runs = Thread(target=self.run)

    def ask(self, sent: bytes) -> bytes:
        """The whole answer. The connection ends with it."""
        with socket.socket(socket.AF_UNIX) as front:
            front.settimeout(5)
            front.connect(self.address)
            front.sendall(sent)
            return front.makefile("rb").read()

    def end(self) -> float:
        """Ends it. Returns the seconds that it took."""
        began, self.alive = time.monotonic(), False
        self.method_queue.defer(lambda: None)
        self.runs.join(20)
        assert not self.runs.is_alive()
        return time.monotonic() - began


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answers, or fails as its path says."""
    start_response("200 OK", [("Content-Length", "4")])
    match environ["PATH_INFO"]:
        case "/exits":
            raise SystemExit
        case "/breaks":
            return iter([b"he", Mock()])  # no bytes
        case "/slow":
            time.sleep(1)
    return [b"here"]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalWorker]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "main.sock"))
        listening.listen(50)
        worker = LocalWorker(listening, application)
        worker.runs.start()
        yield worker
        if worker.runs.is_alive():
            worker.end()
        worker.tmp.close()


def asked(path: str, *, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: site\r\n{more}\r\n".encode()


def test_each_connection_of_the_front_has_one_answer(local: LocalWorker) -> None:
    answers = [local.ask(asked("/")) for _ in range(5)]
    assert all(one.startswith(b"HTTP/1.1 200 OK") and one.endswith(b"here") for one in answers)
    assert all(b"\r\nConnection: close\r\n" in one for one in answers)
    assert local.ask(asked("/", more=f"X-Front-Since: {time.time() - 60:.3f}\r\n")).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("sent", [asked("/exits"), asked("/breaks"), asked("/", more="X-A: a\x01b\r\n"), b"\0\r\n\r\n"])
def test_no_failure_costs_a_thread(local: LocalWorker, sent: bytes) -> None:
    for _ in range(4):
        local.ask(sent)
        with socket.socket(socket.AF_UNIX) as gone:
            gone.connect(local.address)
            gone.sendall(sent)
    assert local.ask(asked("/")).endswith(b"here")
    assert [thread.is_alive() for thread in local._local._threads] == [True, True]  # type: ignore[union-attr]


def test_what_was_begun_is_answered_when_the_worker_ends(local: LocalWorker) -> None:
    with ThreadPoolExecutor() as fronts:
        slow = fronts.submit(local.ask, asked("/slow"))
        time.sleep(0.3)
        assert local.end() < 3
        local.handle_exit(0, None)  # told once more
        assert slow.result().endswith(b"here")


def test_without_its_parent_a_worker_ends_at_once(local: LocalWorker) -> None:
    began, local.ppid = time.monotonic(), -1
    local.method_queue.defer(lambda: None)
    local.runs.join(20)
    assert time.monotonic() - began < 3
    assert not any(thread.is_alive() for thread in local._local._threads)  # type: ignore[union-attr]
