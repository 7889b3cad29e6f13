"""Faults of the site's supports: its stores, its disk, its clock, other servers and their names."""

import socket
import sqlite3
import ssl
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

import requests

from . import means
from .certificates import Certificates
from .faults import Fault, Seen, paused, told
from .origins import Origin
from .world import World

HOUR = 3600
MINUTE = 60
LANES = ("paint.now", "paint.refresh", "paint.warm", "work")
QUEUES = (*LANES, "_kombu*", "unacked*")
QUEUEING_SECONDS = 2
LOOKING_SECONDS = 5
BLOCK = 256 * 1024


def of_stores(disk: bool) -> list[Fault]:
    return [
        Fault("FLUSHALL of cache", partial(_emptied, "cache")),
        Fault("FLUSHALL of state", partial(_emptied, "state")),
        Fault("loss of the broker's data", _queues_lost, QUEUEING_SECONDS),
        Fault("database locked", _locked, 10),
        # nginx has sent the head of an answer before its write fails: it can only close the connection.
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


@contextmanager
def _emptied(server: str, world: World) -> Iterator[Seen]:
    store = getattr(world.stack, server)
    before = store.dbsize()
    store.flushall()
    lost = before - store.dbsize()
    yield partial(told, [f"{lost} of {before} keys lost"] if lost > 0 else [])


@contextmanager
def _queues_lost(world: World) -> Iterator[Seen]:
    """Requests made while no worker takes them from the queues are lost with them."""
    state, seen = world.stack.state, list[str]()
    with paused("paint-now", world), paused("work", world):
        yield partial(told, seen)
        waiting = sum(int(state.llen(lane)) for lane in LANES)
        lost = [key for pattern in QUEUES for key in state.scan_iter(pattern)]
        if lost and state.delete(*lost) and waiting:
            seen.append(f"{waiting} messages lost")


@contextmanager
def _locked(world: World) -> Iterator[Seen]:
    [database] = world.stack.data.glob("*.sqlite3")
    connection = sqlite3.connect(database, isolation_level=None, timeout=30)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield partial(told, ["nobody else could write"] if _is_locked(database) else [])
    finally:
        connection.close()


def _is_locked(database: Path) -> bool:
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


@contextmanager
def _full(world: World) -> Iterator[Seen]:
    ballast = world.stack.data / "ballast"
    try:
        with ballast.open("wb", buffering=0) as file:
            for size in (BLOCK, 4096, 1):
                with suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass
        yield partial(told, [f"no room for {BLOCK} bytes"] if _is_full(world.stack.data) else [])
    finally:
        ballast.unlink()


def _is_full(folder: Path) -> bool:
    file = folder / "more"
    try:
        file.write_bytes(bytes(BLOCK))
    except OSError:
        return True
    finally:
        file.unlink(missing_ok=True)
    return False


@contextmanager
def _away(name: str, world: World) -> Iterator[Seen]:
    origin = world.origins[name]
    origin.go()
    try:
        yield partial(told, ["connections were refused"] if _refuses(origin) else [])
    finally:
        origin.come()


def _refuses(origin: Origin) -> bool:
    try:
        _connected(origin).close()
    except ConnectionRefusedError:
        return True
    return False


def _connected(origin: Origin) -> socket.socket:
    return socket.create_connection((origin.host, origin.port), timeout=LOOKING_SECONDS)


@contextmanager
def _expired(world: World) -> Iterator[Seen]:
    world.certificates.serve("expired")
    try:
        yield partial(told, _objections(world.certificates, world.origins["sealed"]))
    finally:
        world.certificates.serve("valid")


def _objections(certificates: Certificates, origin: Origin) -> list[str]:
    context = ssl.create_default_context(cafile=certificates.trusted)
    try:
        with context.wrap_socket(_connected(origin), server_hostname=origin.host):
            return []
    except ssl.SSLCertVerificationError as error:
        return [error.verify_message]


@contextmanager
def _nameless(world: World) -> Iterator[Seen]:
    names, seen = world.means.names, list[str]()
    assert names
    before = names.unanswered
    names.is_silent = True
    try:
        yield partial(told, seen)
        if asked := names.unanswered - before:
            seen.append(f"{asked} questions without an answer")
    finally:
        names.is_silent = False


@contextmanager
def _stepped(seconds: int, world: World) -> Iterator[Seen]:
    assert world.means.clock
    world.means.clock.step(seconds)
    seen: list[str] = []
    try:
        yield partial(told, seen)
        seen += _on_the_clock(world, seconds)
    finally:
        world.means.clock.step(0)


def _on_the_clock(world: World, seconds: int) -> list[str]:
    """The seconds that the site reports to be ahead, if they are about as many as expected."""
    with suppress(requests.RequestException):
        answer = requests.get(f"{world.stack.base_url}/healthz", timeout=LOOKING_SECONDS)
        ahead = parsedate_to_datetime(answer.headers["Date"]).timestamp() - time.time()
        if abs(ahead - seconds) < MINUTE:
            return [f"answers were dated {ahead:+.0f} s"]
    return []
