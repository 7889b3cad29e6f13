"""`python -m tests.hostile.corpus LOG SECONDS DELAY ADDRESS…`: origins of files made of their paths, which keep a log.

    /c/7/1000     content 7, of 1,000 bytes, without validators; so has /c/7/1000/other.jpg
    /v/7/1000     the same with a digest as its strong ETag
    /s/404        that status
    /r/7/1000     a redirect to /c/7/1000
    /loop         a redirect to itself
    /half/7/1000  half of it, then the connection breaks

An answer takes up to DELAY seconds and a third of that at least, half of it before its head and half before its body,
if it has one, so that a body abandoned at its head shows in the log.

Prints the port, which is the same at all addresses. Each request is a line of the log once its answer has ended.
"""

import asyncio
import hashlib
import json
import os
import sys
import time
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TextIO

import uvloop

BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a path. `sent_bytes` of the body are sent, then the connection is closed if that is not all."""

    status: str
    body: bytes = b""
    fields: tuple[str, ...] = ()
    is_half: bool = False


@lru_cache(maxsize=64)
def content(number: int, size: int) -> bytes:
    """Bytes that no other number has."""
    block = hashlib.shake_128(str(number).encode()).digest(min(size, 256))
    return (block * (size // len(block) + 1))[:size] if size else b""


def answer_to(path: str) -> Answer:
    match path.partition("?")[0].split("/")[1:]:
        case ["c", number, size, *_]:
            return Answer("200 OK", content(int(number), int(size)))
        case ["v", number, size, *_]:
            body = content(int(number), int(size))
            return Answer("200 OK", body, (f'ETag: "{hashlib.sha1(body).hexdigest()}"',))
        case ["half", number, size, *_]:
            return Answer("200 OK", content(int(number), int(size)), is_half=True)
        case ["r", *rest]:
            return Answer("302 Found", fields=(f"Location: /c/{'/'.join(rest)}",))
        case ["loop", *_]:
            return Answer("302 Found", fields=(f"Location: {path}",))
        case ["s", status, *_]:
            return Answer(f"{status} Because")
    return Answer("404 Not Found")


class Books:
    """The log. `at_once` counts the requests for a path that are open, the new one included, with any query:
    only tracking parameters are added to these paths.
    """

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self._open: dict[str, int] = {}

    def begin(self, path: str) -> int:
        self._open[path] = self._open.get(path, 0) + 1
        return self._open[path]

    def end(self, path: str, **told: object) -> None:
        self._open[path] -= 1
        self._log.write(json.dumps({"path": path, **told, "ended": time.time()}) + "\n")
        self._log.flush()


async def serve(books: Books, delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection."""
    host = writer.get_extra_info("sockname")[0]
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.decode("latin-1").split(" ", 2)
            pause = delay * (1 + zlib.crc32(path.encode()) % 200 / 100) / 3
            if not await respond(books, reader, writer, f"{host}{path.partition('?')[0]}", method, pause):
                return
    except (asyncio.IncompleteReadError, OSError):
        pass
    finally:
        writer.close()


async def respond(  # noqa: PLR0917  one request, by all that tells it from others
    books: Books, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str, method: str, pause: float
) -> bool:
    """Answers; returns True if the connection lives on. The request is over when all is sent, or no client takes it."""
    answer, began = answer_to(key[key.index("/") :]), time.time()
    at_once, sent = books.begin(key), 0
    fields = "".join(f"{field}\r\n" for field in answer.fields)
    body = b"" if method == "HEAD" else answer.body[: len(answer.body) // 2] if answer.is_half else answer.body
    try:
        await asyncio.sleep(pause / 2 if body else pause)
        writer.write(f"HTTP/1.1 {answer.status}\r\n{fields}Content-Length: {len(answer.body)}\r\n\r\n".encode())
        await asyncio.sleep(pause / 2 if body else 0)
        for start in range(0, 0 if reader.at_eof() else len(body), BLOCK):
            writer.write(body[start : start + BLOCK])
            await writer.drain()
            sent += len(body[start : start + BLOCK])
        await writer.drain()
    finally:
        status = int(answer.status[:3])
        books.end(key, method=method, began=began, at_once=at_once, status=status, sent=sent)
    return not answer.is_half


async def main(log: str, seconds: float, delay: float, addresses: list[str]) -> None:
    with open(log, "a") as file:
        books, port = Books(file), 0
        for address in addresses:
            server = await asyncio.start_server(lambda r, w: serve(books, delay, r, w), address, port, backlog=1024)
            port = server.sockets[0].getsockname()[1]
        print(port, flush=True)
        await asyncio.sleep(seconds)
        os._exit(0)  # with the connections that there are


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
