"""Main's threads for this machine's front, at a listening socket: who answers, who waits, and how they end."""

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Semaphore, get_ident
from unittest.mock import Mock

import pytest

from project import local_threads
from project.local_threads import LocalThreads

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
    listening.getsockname = two.listening.getsockname
    two.threads._listening[two.listening.fileno()] = listening
    assert two.send(b"a").recv(100)
    log.exception.assert_called_once()


def test_without_a_listening_socket_there_are_no_threads() -> None:
    none = LocalThreads([], 8, Mock(), Mock())
    none.start()
    assert none._threads == []
    none.end()
