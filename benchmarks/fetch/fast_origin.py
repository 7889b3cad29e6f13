"""`python -m benchmarks.fetch.fast_origin BYTES FD...`: answers each request with so many bytes, at those sockets."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import cast

import uvloop


class Answering(asyncio.Protocol):
    """One connection. Knows where a request ends, and nothing else of it."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        *requests, self._received = self._received.split(b"\r\n\r\n")
        self._transport.write(self._answer * len(requests))


@contextmanager
def origins(size: int, addresses: Sequence[str] = ("127.0.0.1",)) -> Iterator[list[str]]:
    """Origins that do nothing but answer, all in one process of their own: the host and port of each."""
    with ExitStack() as sockets:
        listening = [sockets.enter_context(socket.create_server((address, 0), backlog=1024)) for address in addresses]
        files = [one.fileno() for one in listening]
        command = [sys.executable, "-m", "benchmarks.fetch.fast_origin", str(size), *map(str, files)]
        process = subprocess.Popen(command, pass_fds=files)
        try:
            yield [f"{host}:{port}" for host, port in (one.getsockname() for one in listening)]
        finally:
            process.terminate()
            process.wait()


async def serve(size: int, listening: Sequence[socket.socket]) -> None:
    fields = b'Content-Type: text/html\r\nCache-Control: max-age=60\r\nETag: "1"\r\n'
    answer = b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (fields, size, b"x" * size)
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(lambda: Answering(answer), sock=one) for one in listening]
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), [socket.socket(fileno=int(number)) for number in sys.argv[2:]]))
