"""Faults of what the site rests on: its stores, its disk, its clock, other servers and their names."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from tests.chaos import means
from tests.chaos.faults import Fault, paused
from tests.chaos.world import World

HOUR = 3600
QUEUES = ("paint.now", "paint.refresh", "paint.warm", "work", "_kombu*", "unacked*")
QUEUEING_SECONDS = 2
BLOCK = 256 * 1024


def of_stores(disk: bool) -> list[Fault]:
    return [
        Fault("FLUSHALL of cache", lambda world: _emptied(world, "cache")),
        Fault("FLUSHALL of state", lambda world: _emptied(world, "state")),
        Fault("loss of the broker's data", _queues_lost, QUEUEING_SECONDS),
        Fault("database locked", _locked, 10),
        # nginx has sent the head of an answer by the time that it cannot write it down: it can only give up then.
        Fault("disk full", _full, 8, breaks_connections=True, lacks="" if disk else means.NO_MOUNTS),
    ]


def of_others(names: bool) -> list[Fault]:
    return [
        Fault("origin gone", partial(_away, "leaving"), 10),
        Fault("certificate expired", _expired, 8),
        Fault("DNS gone", _nameless, 10, lacks="" if names else means.NO_MOUNTS),
    ]


def of_the_clock(clock: bool) -> list[Fault]:
    lacks = "" if clock else means.NO_CLOCK
    return [
        Fault("clock an hour ahead", partial(_stepped, HOUR), 10, ages_tickets=True, lacks=lacks),
        Fault("clock an hour behind", partial(_stepped, -HOUR), 10, ages_tickets=True, lacks=lacks),
    ]


def _emptied(world: World, server: str) -> "nullcontext[None]":
    getattr(world.stack, server).flushall()
    return nullcontext()


@contextmanager
def _queues_lost(world: World) -> Iterator[None]:
    """What is asked for while nobody takes it from the queues is lost with them."""
    with paused("paint-now", world), paused("work", world):
        yield
        state = world.stack.state
        lost = [key for pattern in QUEUES for key in state.scan_iter(pattern)]
        if lost:
            state.delete(*lost)


@contextmanager
def _locked(world: World) -> Iterator[None]:
    [database] = world.stack.data.glob("*.sqlite3")
    connection = sqlite3.connect(database, isolation_level=None, timeout=30)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        connection.close()


@contextmanager
def _full(world: World) -> Iterator[None]:
    """No byte more fits on the disk that has the site's data."""
    ballast = world.stack.data / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            for size in (BLOCK, 4096, 1):
                with suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass
        yield
    finally:
        ballast.unlink()


@contextmanager
def _away(name: str, world: World) -> Iterator[None]:
    world.origins[name].go()
    try:
        yield
    finally:
        world.origins[name].come()


@contextmanager
def _expired(world: World) -> Iterator[None]:
    world.certificates.serve("expired")
    try:
        yield
    finally:
        world.certificates.serve("valid")


@contextmanager
def _nameless(world: World) -> Iterator[None]:
    assert world.means.names
    world.means.names.is_silent = True
    try:
        yield
    finally:
        world.means.names.is_silent = False


@contextmanager
def _stepped(seconds: int, world: World) -> Iterator[None]:
    assert world.means.clock
    world.means.clock.step(seconds)
    try:
        yield
    finally:
        world.means.clock.step(0)
