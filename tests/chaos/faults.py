"""Faults of processes, each with its begin and its end, made from outside the site."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import psutil

from ..support.processes import PROCESSES, family, wait_until_ended
from ..support.stack import Stack, eventually
from .world import World

PAUSE_SECONDS = 5
BACK_SECONDS = 10
"""The limit for the return of a killed process after the recovery."""

Seen: TypeAlias = Callable[[], str]
"""Describes the effect of a fault, after the recovery. Raises AssertionError when there is none."""

Members: TypeAlias = Callable[[Stack], list[psutil.Process]]
"""The running processes of one kind, of which one is killed."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of so many seconds. `holding` begins it, and ends it on leaving.

    `breaks_connections`: clients may lose their connections by it, and no retry can spare them.
    `ages_tickets`: it makes the tickets of redirected clients too old, or issued in the future.
    `lacks`: the missing part without which the machine cannot make it.
    """

    name: str
    holding: Callable[[World], AbstractContextManager[Seen]]
    seconds: float = 0
    breaks_connections: bool = False
    ages_tickets: bool = False
    lacks: str = ""


CHILDREN = {
    "nginx worker": ("nginx", "nginx: worker process"),
    "main worker": ("main", "project.wsgi"),
    "retry worker": ("retry", "retry.asgi"),
    "paint child": ("paint-now", "paint.now"),
}
"""The parent of each child, and a part of its command line: some children of nginx serve no client."""


def kills() -> list[Fault]:
    """SIGKILL of each process, and of one child of each parent."""
    of_children = {what: (name, partial(children, name, title)) for what, (name, title) in CHILDREN.items()}
    of_processes = {name: (name, partial(process, name)) for name in PROCESSES}
    return [
        Fault(f"SIGKILL {what}", partial(_killed, members), breaks_connections=name == "nginx")
        for what, (name, members) in (of_children | of_processes).items()
    ]


def pauses() -> list[Fault]:
    return [Fault(f"SIGSTOP {name}", partial(paused, name), PAUSE_SECONDS) for name in PROCESSES]


def process(name: str, stack: Stack) -> list[psutil.Process]:
    return family(stack.pid(name))[:1]


def children(name: str, title: str, stack: Stack) -> list[psutil.Process]:
    return [child for child in family(stack.pid(name))[1:] if title in _command_line(child)]


def told(seen: Sequence[str]) -> str:
    """The visible effect of a fault while it held. Raises AssertionError if there is none."""
    assert seen, "nothing was seen of it"
    return ", ".join(seen)


@contextmanager
def _killed(members: Members, world: World) -> Iterator[Seen]:
    before: list[psutil.Process] = []

    def are_there() -> bool:
        before[:] = members(world.stack)
        return bool(before)

    eventually(are_there, BACK_SECONDS, "there is something to kill")
    before[-1].kill()
    yield partial(_replaced, before, members, world.stack)


def _replaced(before: Sequence[psutil.Process], members: Members, stack: Stack) -> str:
    """Waits until the killed process is gone, and there are as many as before."""
    killed = before[-1]
    assert not wait_until_ended([killed], BACK_SECONDS), f"{killed.pid} lives"
    found: list[psutil.Process] = []

    def are_back() -> bool:
        found[:] = members(stack)
        return len(found) >= len(before) and killed not in found

    eventually(are_back, BACK_SECONDS, f"another for {killed.pid}")
    return f"{killed.pid} gone, {', '.join(str(one.pid) for one in found)} there"


@contextmanager
def paused(name: str, world: World) -> Iterator[Seen]:
    members = family(world.stack.pid(name))
    _signal_all(members, signal.SIGSTOP)
    seen: list[str] = []
    try:
        yield partial(told, seen)
        seen += _at_a_stand(members)
    finally:
        _signal_all(members, signal.SIGCONT)


def _at_a_stand(members: Sequence[psutil.Process]) -> list[str]:
    """The stopped members; none while one still runs."""
    states = {member.pid: _state(member) for member in members}
    stopped = [str(pid) for pid, state in states.items() if state == psutil.STATUS_STOPPED]
    ended = [pid for pid, state in states.items() if state in ("", psutil.STATUS_ZOMBIE)]
    return [f"{', '.join(stopped)} stopped"] if stopped and len(stopped) + len(ended) == len(members) else []


def _state(member: psutil.Process) -> str:
    """Empty when it has ended."""
    try:
        return str(member.status())
    except psutil.NoSuchProcess:
        return ""


def _command_line(member: psutil.Process) -> str:
    """Empty when it has ended."""
    try:
        return " ".join(member.cmdline())
    except psutil.NoSuchProcess:
        return ""


def _signal_all(members: Sequence[psutil.Process], number: signal.Signals) -> None:
    for member in members:
        with suppress(psutil.NoSuchProcess):  # a child that has done its work
            member.send_signal(number)
