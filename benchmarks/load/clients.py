"""Clients by the thousand: one keep-alive connection each, following redirects, in this process' event loop.

They read nginx' answers with a Content-Length and nothing else of HTTP.
"""

import asyncio
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import cast

ANSWER_SECONDS = 150
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # no TIME_WAIT: thousands of ports are free again at once


@dataclass(frozen=True, slots=True)
class Answer:
    """`at` is the moment of its last byte, in Unix seconds, which the site's processes use as well."""

    status: int
    at: float
    location: str
    body: bytes


@dataclass(slots=True)
class Visit:
    """The answers that a client met on its way, and the reason if it ended early."""

    answers: list[Answer] = field(default_factory=list)
    error: str = ""

    @property
    def status(self) -> int:
        return self.answers[-1].status if self.answers and not self.error else 0

    def __str__(self) -> str:
        return f"{[answer.status for answer in self.answers]} {self.error}".strip()

    @property
    def redirects(self) -> int:
        return sum(answer.status == 302 for answer in self.answers)


class Client(asyncio.Protocol):
    """One connection. Asks one thing at a time."""

    def __init__(self, host: str) -> None:
        self.host = host
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answer: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def data_received(self, data: bytes) -> None:
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return
        head, body = self._received[:end], self._received[end + 4 :]
        if len(body) < int(_header(head, b"content-length") or 0):
            return
        self._received = b""
        location = _header(head, b"location").decode()
        self._resolve(Answer(int(head[9:12]), time.time(), location, body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed without an answer"))

    def ask(self, path: str) -> "asyncio.Future[Answer]":
        """Sends a GET; the answer comes with the future. Gives no answer a limit."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        if self._transport.is_closing():
            self._answer.set_exception(ConnectionError("the connection is closed"))
        self._transport.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        return self._answer

    def close(self) -> None:
        if self._transport:
            self._transport.abort()

    def _resolve(self, answer: Answer) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_result(answer)


def _header(head: bytes, name: bytes) -> bytes:
    start = head.lower().find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    end = head.find(b"\r\n", start + 2)
    return head[start + len(name) + 3 : None if end < 0 else end].strip()


async def connect(host: str) -> Client:
    """A client of `host` (address and port). Raises OSError."""
    address, _, port = host.rpartition(":")
    _, client = await asyncio.get_running_loop().create_connection(lambda: Client(host), address, int(port))
    return client


async def follow(
    client: Client, path: str, *, redirects: int = 20, visit: Visit | None = None, seconds: float = ANSWER_SECONDS
) -> Visit:
    """Asks for the path and follows redirects, so many at most, for so long. Errors are part of the visit."""
    visit = visit or Visit()
    try:
        async with asyncio.timeout(seconds):
            while True:
                answer = await client.ask(path)
                visit.answers.append(answer)
                if answer.status != 302 or visit.redirects > redirects:
                    return visit
                path = answer.location
    except OSError as error:  # a TimeoutError is one
        visit.error = f"{type(error).__name__}: {error}"
    return visit
