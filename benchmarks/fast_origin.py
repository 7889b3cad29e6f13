"""`python -m benchmarks.fast_origin FD BYTES`: answers whatever it is asked with so many bytes, at the socket FD."""

import asyncio
import socket
import sys
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


async def serve(listening: socket.socket, size: int) -> None:
    fields = b'Content-Type: text/html\r\nCache-Control: max-age=60\r\nETag: "1"\r\n'
    answer = b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (fields, size, b"x" * size)
    server = await asyncio.get_running_loop().create_server(lambda: Answering(answer), sock=listening)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])))
