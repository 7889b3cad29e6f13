"""The schedule: faults one after the other, each with its begin and its end. What is broken is broken from outside."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

from tests.chaos.world import World

PAUSE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong for so long. `holding` begins it, and ends it on leaving.

    `breaks_connections` when clients may lose their connections by it, which nothing can spare them.
    `ages_tickets` when the tickets of clients that are being redirected are too old by it, or not issued yet.
    `lacks` says what a machine lacks to make it, if it lacks anything.
    """

    name: str
    holding: Callable[[World], AbstractContextManager[None]]
    seconds: float = 0
    breaks_connections: bool = False
    ages_tickets: bool = False
    lacks: str = ""


PROCESSES = ("nginx", "main", "retry", "paint-now", "paint-refresh", "work", "beat", "fetch", "state", "cache")
CHILDREN = {"nginx": "nginx worker", "main": "main worker", "retry": "retry worker", "paint-now": "paint child"}


def kills() -> list[Fault]:
    """SIGKILL of each process, and of one child of those that have them."""
    of_children = [
        Fault(f"SIGKILL {what}", partial(_killed_child, name), breaks_connections=name == "nginx")
        for name, what in CHILDREN.items()
    ]
    of_processes = [
        Fault(f"SIGKILL {name}", partial(_killed, name), breaks_connections=name == "nginx") for name in PROCESSES
    ]
    return of_children + of_processes


def pauses() -> list[Fault]:
    """SIGSTOP of each process with its children."""
    return [Fault(f"SIGSTOP {name}", partial(paused, name), PAUSE_SECONDS) for name in PROCESSES]


def _killed(name: str, world: World) -> AbstractContextManager[None]:
    world.stack.kill(name)
    return nullcontext()


def _killed_child(name: str, world: World) -> AbstractContextManager[None]:
    with suppress(ProcessLookupError):
        os.kill(world.stack.pids(name)[-1], signal.SIGKILL)
    return nullcontext()


@contextmanager
def paused(name: str, world: World) -> Iterator[None]:
    """The process and its children, as they are at the begin."""
    pids = world.stack.pids(name)
    _signal_all(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal_all(pids, signal.SIGCONT)


def _signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a child that has done its work
            os.kill(pid, number)
