"""Faults that clients make: too many of them, slow ones, and ones that go away."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event, Thread

from tests.chaos.faults import Fault
from tests.chaos.world import World
from tests.flows.crowd import Crowd

MANY = 10
SLOW_READERS, BYTES_A_SECOND = 50, 1000
VANISHING = 300
READING_SECONDS = 10


def floods() -> list[Fault]:
    return [
        Fault(f"{MANY} times the load", _flooded, 30),
        Fault(f"{SLOW_READERS} clients that read slowly", _read_slowly, 15),
        Fault(f"{VANISHING} clients that vanish while they wait", _vanishing, 5),
    ]


@contextmanager
def _flooded(world: World) -> Iterator[None]:
    world.client.factor = MANY
    try:
        yield
    finally:
        world.client.factor = 1


@contextmanager
def _read_slowly(world: World) -> Iterator[None]:
    """They take a large file, a few bytes at a time, and never get to its end."""
    over = Event()
    with ExitStack() as stack:
        readers = [stack.enter_context(_asking(world.stack.port, world.large)) for _ in range(SLOW_READERS)]
        thread = Thread(target=_sip, args=(readers, over), daemon=True)
        thread.start()
        try:
            yield
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


def _sip(readers: list[socket.socket], over: Event) -> None:
    while not over.wait(1):
        for reader in readers:
            with suppress(OSError):
                reader.recv(BYTES_A_SECOND)


@contextmanager
def _vanishing(world: World) -> Iterator[None]:
    name = f"vanishing{time.monotonic():.0f}"
    with Crowd(world.stack.base_url) as crowd:
        crowd.send([f"/slow/{name}?gated=1"] * VANISHING)
        try:
            yield
        finally:
            crowd.leave()
            world.stack.open_gate(name)
