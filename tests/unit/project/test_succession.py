"""The end of a worker of main."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from gunicorn.config import Config

from project import main_worker
from project.main_worker import SucceededWorker


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "main.sock"))
        yield one


@pytest.fixture
def born(listening: socket.socket) -> Iterator[Callable[[int], SucceededWorker]]:
    """Workers of that age."""
    with ExitStack() as ends:

        def make(age: int) -> SucceededWorker:
            worker = SucceededWorker(age, 0, [listening], None, 30, Config(), None)
            worker.method_queue.init()
            ends.callback(worker.method_queue.close)
            ends.callback(worker.tmp.close)
            return worker

        yield make


@pytest.fixture
def worker(born: Callable[[int], SucceededWorker]) -> SucceededWorker:
    first = born(1)
    main_worker._youngest_age[:] = bytes(8)
    main_worker.note_worker_ready(first)
    return first


def told_to_end(worker: SucceededWorker) -> bool:
    """Tells whether it ends then."""
    worker.handle_exit(15, None)
    worker.notify()
    return not worker.alive


def test_a_worker_without_a_successor_goes_on(worker: SucceededWorker) -> None:
    assert not told_to_end(worker)


def test_it_ends_as_soon_as_a_younger_one_answers(
    worker: SucceededWorker, born: Callable[[int], SucceededWorker]
) -> None:
    assert not told_to_end(worker)
    main_worker.note_worker_ready(born(2))
    worker.notify()
    assert not worker.alive


def test_each_waits_for_a_successor_of_its_own(born: Callable[[int], SucceededWorker]) -> None:
    main_worker._youngest_age[:] = bytes(8)
    older, younger = born(3), born(4)
    for worker in (older, younger):
        worker.cfg.set("workers", 2)
        main_worker.note_worker_ready(worker)
    assert not told_to_end(older)
    assert not told_to_end(younger)
    main_worker.note_worker_ready(born(5))
    assert told_to_end(older)
    assert not told_to_end(younger)
    main_worker.note_worker_ready(born(6))
    assert told_to_end(younger)


def test_it_ends_with_its_instance(worker: SucceededWorker, listening: socket.socket) -> None:
    Path(listening.getsockname()).unlink()
    assert told_to_end(worker)


def test_it_ends_when_no_successor_comes(worker: SucceededWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_worker, "SUCCESSOR_PATIENCE_SECONDS", -1)
    assert told_to_end(worker)


def test_a_worker_that_nobody_tells_goes_on(worker: SucceededWorker, born: Callable[[int], SucceededWorker]) -> None:
    main_worker.note_worker_ready(born(2))
    worker.notify()
    assert worker.alive
