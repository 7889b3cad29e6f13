"""An origin that answers as it is told, byte by byte, and records its requests."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived. Names of fields are in small letters."""

    method: str
    target: str
    fields: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Peer:
    """The client's end of a connection, as a behaviour sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    asked: Asked

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def drip(self, data: bytes, seconds: float) -> None:
        """One byte every so many seconds."""
        for byte in data:
            await self.send(bytes([byte]))
            await asyncio.sleep(seconds)

    async def flood(self, data: bytes) -> None:
        """The same again and again, as fast as it is taken."""
        while True:
            await self.send(data)

    async def hang(self) -> None:
        """Nothing more, until the client leaves."""
        await self.reader.read()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.writer.transport.abort()


Behaviour = Callable[[Peer], Awaitable[None]]
"""Answers one request. The connection lives on when it returns, unless it closed it."""


def answer(status: str = "200 OK", *fields: str, body: bytes = b"") -> Behaviour:
    """A decent answer: its length is right."""
    return raw(head(status, *fields, f"Content-Length: {len(body)}") + body)


def redirect(location: str, status: str = "302 Found") -> Behaviour:
    return answer(status, f"Location: {location}")


def raw(data: bytes, *, close: bool = False) -> Behaviour:
    """Exactly these bytes."""

    async def behave(peer: Peer) -> None:
        await peer.send(data)
        if close:
            peer.writer.close()

    return behave


Step = bytes | float | Callable[[Peer], Awaitable[object] | None]


def steps(*given: Step) -> Behaviour:
    """Sends bytes, waits so many seconds, or does something else, in this order."""

    async def behave(peer: Peer) -> None:
        for step in given:
            if isinstance(step, bytes):
                await peer.send(step)
            elif isinstance(step, float):
                await asyncio.sleep(step)
            elif (doing := step(peer)) is not None:
                await doing

    return behave


def held_until(released: asyncio.Event, behaviour: Behaviour, asked: asyncio.Event | None = None) -> Behaviour:
    """Behaves so once that is set; `asked` is set when the request is there."""

    async def behave(peer: Peer) -> None:
        if asked:
            asked.set()
        await released.wait()
        await behaviour(peer)

    return behave


def flood(data: bytes) -> Step:
    return lambda peer: peer.flood(data)


def drip(data: bytes, seconds: float) -> Step:
    return lambda peer: peer.drip(data, seconds)


def half_close(peer: Peer) -> None:
    peer.writer.write_eof()


def head(status: str, *fields: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *fields, "", ""]).encode("latin-1")


@dataclass
class Origin:
    """Listens at one loopback address. `asked` and `connections` are those that really reached it."""

    address: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    paths: dict[str, Behaviour] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    def does(self, path: str, behaviour: Behaviour) -> str:
        """Has it behave so when it is asked for the path; returns the URL."""
        self.paths[path] = behaviour
        return self.url(path)

    def url(self, path: str) -> str:
        return f"{'https' if self.tls else 'http'}://{self.address}:{self.port}{path}"

    @property
    def targets(self) -> list[str]:
        return [asked.target for asked in self.asked]

    async def __aenter__(self) -> Self:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._serve, self.address, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                await self.paths[asked.target.partition("?")[0]](Peer(reader, writer, asked))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (asyncio.IncompleteReadError, OSError):
        return None
    method, target, _ = lines[0].split(" ")
    fields = dict(_fields(lines[1:]))
    return Asked(method, target, fields, await reader.readexactly(int(fields.get("content-length", "0"))))


def _fields(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            yield name.lower(), value.strip()
