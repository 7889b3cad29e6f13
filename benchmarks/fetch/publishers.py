"""`python -m benchmarks.fetch.publishers LOG LIMIT`: feeds at many hosts, each a loopback address with a secret limit.

The N-th line of standard input is the number of the N-th feed's host and the seconds that its answers take, as JSON:
it is `http://127.40.X.Y:PORT/N`. After an empty line the port is printed. Each host answers LIMIT requests at once, or
any number if that is 0, and refuses the rest with 429. Every request is a line of the log, written when it has been
answered.
"""

import asyncio
import json
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TextIO

import uvloop

RETRY_AFTER_SECONDS = 1
NETWORK, AT_ADDRESS = "127.40", 250
ENTRIES = 15
REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n" % RETRY_AFTER_SECONDS


def address(host: int) -> str:
    """The loopback address of the host of that number."""
    return f"{NETWORK}.{host // AT_ADDRESS}.{1 + host % AT_ADDRESS}"


class Publisher:
    """All hosts of one process."""

    def __init__(self, seconds: list[float], limit: int, log: TextIO) -> None:
        self._seconds = seconds
        self._limit = limit
        self._log = log
        self._at_once = Counter[str]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers requests of one connection, one after the other."""
        host = writer.get_extra_info("sockname")[0]
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(host, head))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):  # the client has enough
            pass
        finally:
            writer.close()

    async def _answer(self, host: str, head: bytes) -> bytes:
        began, number = time.time(), int(head.split(None, 2)[1].lstrip(b"/"))
        self._at_once[host] += 1
        try:
            if self._at_once[host] > self._limit > 0:
                return self._noted(number, began, 429, REFUSED)
            await asyncio.sleep(self._seconds[number])
        finally:
            self._at_once[host] -= 1
        etag = b'"%d"' % number
        if b"if-none-match: " + etag in head.lower():
            return self._noted(number, began, 304, b"HTTP/1.1 304 Not Modified\r\nETag: " + etag + b"\r\n\r\n")
        body = feed(number)
        fields = b"Content-Type: application/rss+xml\r\nETag: %b\r\nContent-Length: %d" % (etag, len(body))
        return self._noted(number, began, 200, b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (fields, body))

    def _noted(self, number: int, began: float, status: int, answer: bytes) -> bytes:
        self._log.write(json.dumps({"feed": number, "began": began, "ended": time.time(), "status": status}) + "\n")
        self._log.flush()
        return answer


def feed(number: int) -> bytes:
    """RSS of 15 entries, an hour apart."""
    items = "".join(
        f"<item><guid isPermaLink='false'>{number}-{place}</guid><title>Entry {place}</title>"
        f"<description>&lt;p&gt;Text of entry {place}.&lt;/p&gt;</description>"
        f"<pubDate>Sun, 01 Nov 2026 {place:02d}:00:00 GMT</pubDate></item>"
        for place in range(ENTRIES)
    )
    return f"<rss version='2.0'><channel><title>Feed {number}</title>{items}</channel></rss>".encode()


async def main(log: Path, limit: int) -> None:
    lines = [json.loads(line) for line in iter(sys.stdin.readline, "\n")]
    with log.open("w") as file, socket.create_server(("0.0.0.0", 0), backlog=1024) as listening:
        publisher = Publisher([seconds for _, seconds in lines], limit, file)
        server = await asyncio.start_server(publisher.serve, sock=listening)
        print(listening.getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
