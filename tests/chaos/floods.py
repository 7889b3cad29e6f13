"""Faults that clients make: too many of them, slow ones, and ones that go away."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Event, Thread

from ..support.crowd import Crowd
from .faults import Fault, Seen
from .world import World

MANY, LEAST_TIMES = 10, 8
"""The multiple of the load to send, and the least that must be sent: clients that cannot keep up prove nothing."""
SLOW_READERS, BYTES_A_SECOND = 50, 1000
VANISHING = 300
LEAST_PART = 0.8
READING_SECONDS = 10


def floods() -> list[Fault]:
    return [
        Fault(f"{MANY} times the load", _flooded, 30),
        Fault(f"{SLOW_READERS} clients that read slowly", _read_slowly, 15),
        Fault(f"{VANISHING} clients that vanish while they wait", _vanishing, 5),
    ]


@contextmanager
def _flooded(world: World) -> Iterator[Seen]:
    client = world.client
    began, before = time.monotonic(), client.begun
    times: list[float] = []
    client.factor = MANY
    try:
        yield partial(_times_the_load, times)
    finally:
        client.factor = 1
        times.append((client.begun - before) / (time.monotonic() - began) / client.per_second)


def _times_the_load(times: Sequence[float]) -> str:
    assert times[0] >= LEAST_TIMES, f"only {times[0]:.1f} times as much was asked as usual"
    return f"{times[0]:.1f} times as much was asked as usual"


@contextmanager
def _read_slowly(world: World) -> Iterator[Seen]:
    """Clients that take a large file a few bytes at a time, and never reach its end."""
    over = Event()
    sips: list[list[bytes]] = [[] for _ in range(SLOW_READERS)]
    with ExitStack() as stack:
        readers = [stack.enter_context(_asking(world.stack.port, world.large)) for _ in range(SLOW_READERS)]
        thread = Thread(target=_sip, args=(readers, sips, over), daemon=True)
        thread.start()
        try:
            yield partial(_are_still_reading, sips)
        finally:
            over.set()
            thread.join()


def _asking(port: int, address: str) -> socket.socket:
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.settimeout(READING_SECONDS)
    reader.connect(("127.0.0.1", port))
    reader.sendall(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return reader


def _sip(readers: Sequence[socket.socket], sips: Sequence[list[bytes]], over: Event) -> None:
    while not over.wait(1):
        for reader, had in zip(readers, sips, strict=True):
            with suppress(OSError):
                had.append(reader.recv(BYTES_A_SECOND))


def _are_still_reading(sips: Sequence[Sequence[bytes]]) -> str:
    reading = [had for had in sips if len(had) > 1 and had[0].startswith(b"HTTP/1.1 200 ") and had[-1]]
    return _most(len(reading), len(sips), "were reading to the end")


@contextmanager
def _vanishing(world: World) -> Iterator[Seen]:
    name = f"vanishing{time.monotonic():.0f}"
    waiting: list[float] = []
    with Crowd(world.stack.base_url) as crowd:
        crowd.send([f"/slow/{name}?gated=1"] * VANISHING)
        try:
            yield partial(_were_waiting, waiting)
            with suppress(OSError):
                waiting.append(world.stack.metric("tarry_waiting_clients"))
        finally:
            crowd.leave()
            world.stack.open_gate(name)


def _were_waiting(waiting: Sequence[float]) -> str:
    return _most(max(waiting, default=0), VANISHING, "were waiting")


def _most(number: float, of: int, what: str) -> str:
    assert number >= LEAST_PART * of, f"only {number:.0f} of {of} {what}"
    return f"{number:.0f} of {of} {what}"
