"""Faults and their visible effects: a fault without effect is told from one with effect."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from ..support.processes import PROCESSES
from ..support.stack import eventually
from . import faults, resource_faults
from .faults import CHILDREN, Seen

TITLES = ("nginx: worker process", "nginx: cache manager process")


class Keeper:
    """A stack of one process, which can be started again after each end."""

    def __init__(self) -> None:
        self.process = _asleep()
        self.starts_again = True

    def pid(self, _: str) -> int:
        if self.starts_again and self.process.poll() is not None:
            self.process = _asleep()
        return self.process.pid


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    keeper = Keeper()
    yield keeper
    keeper.process.kill()
    keeper.process.wait()


def test_every_process_is_killed_and_stopped() -> None:
    assert [one.name for one in faults.kills()] == [f"SIGKILL {name}" for name in [*CHILDREN, *PROCESSES]]
    assert [one.name for one in faults.pauses()] == [f"SIGSTOP {name}" for name in PROCESSES]
    assert {"paint-warm", "beat", "fetch", "state", "nginx"} <= set(PROCESSES)


def test_it_is_a_worker_of_nginx_that_is_killed_and_not_the_last_child() -> None:
    with _parent([f"exec -a '{title}' sleep 60" for title in TITLES]) as pid:
        _wait_for(lambda: _command_lines(psutil.Process(pid).children()) == [f"{title} 60" for title in TITLES])
        name, title = CHILDREN["nginx worker"]
        assert _command_lines(faults.children(name, title, _any(pid=lambda _: pid))) == ["nginx: worker process 60"]


@pytest.mark.parametrize("starts_again", [True, False])
def test_a_kill_is_seen_when_there_is_another_process(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, starts_again: bool
) -> None:
    monkeypatch.setattr(faults, "BACK_SECONDS", 5 if starts_again else 0.2)
    keeper.starts_again, killed = starts_again, keeper.process.pid
    [kill] = [one for one in faults.kills() if one.name == "SIGKILL main"]
    with kill.holding(_any(stack=keeper)) as seen:
        pass
    with nullcontext() if starts_again else pytest.raises(AssertionError, match="another for"):
        assert seen() == f"{killed} gone, {keeper.process.pid} there"


@pytest.mark.parametrize("ends_early", [False, True])
def test_a_stop_is_seen_by_the_state_of_the_process(keeper: Keeper, ends_early: bool) -> None:
    process = psutil.Process(keeper.process.pid)
    with faults.paused("main", _any(stack=keeper)) as seen:
        _wait_for(lambda: process.status() == psutil.STATUS_STOPPED)
        if ends_early:
            process.resume()
            _wait_for(lambda: process.status() != psutil.STATUS_STOPPED)
    assert _is_seen(seen) is not ends_early
    _wait_for(lambda: process.status() != psutil.STATUS_STOPPED)


def test_a_stop_that_leaves_out_a_child_is_told() -> None:
    with _parent(["exec sleep 60"]) as pid:
        _wait_for(lambda: _command_lines(psutil.Process(pid).children()) == ["sleep 60"])
        with faults.paused("main", _any(stack=_any(pid=lambda _: pid))) as seen:
            [child] = psutil.Process(pid).children()
            child.resume()
            _wait_for(lambda: child.status() != psutil.STATUS_STOPPED)
        assert not _is_seen(seen)


@pytest.mark.parametrize("lost", [3, 0])
def test_a_store_that_had_nothing_has_lost_nothing(lost: int) -> None:
    sizes = iter([lost, 0])
    store = _any(dbsize=lambda: next(sizes), flushall=lambda: None)
    [flush] = [one for one in resource_faults.of_stores(disk=True) if one.name == "FLUSHALL of cache"]
    with flush.holding(_any(stack=_any(cache=store))) as seen:
        pass
    assert _is_seen(seen) is bool(lost)


def _is_seen(seen: Seen) -> bool:
    try:
        return bool(seen())
    except AssertionError:
        return False


def _any(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


def _asleep() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["sleep", "60"])


@contextmanager
def _parent(children: Sequence[str]) -> Iterator[int]:
    """The number of a process with these children, which are a shell's commands."""
    with subprocess.Popen(["bash", "-c", f"{' & '.join(children)} & wait"]) as parent:
        try:
            yield parent.pid
        finally:
            for child in psutil.Process(parent.pid).children():
                child.kill()


def _command_lines(members: Sequence[psutil.Process]) -> list[str]:
    return [" ".join(member.cmdline()) for member in members]


def _wait_for(holds: Callable[[], bool]) -> None:
    eventually(holds, 5, "what the test waits for")
