"""`python -m tests.hostile.secrets LOG SECONDS`: origins with secret limits, one on each loopback address.

The limits of `http://127.1.0.N:PORT/` are the N-th line of standard input, as JSON: `rate`, `burst`, `latency`
(Infinity: nothing is ever answered), `most_at_once`, `retry_after`. After an empty line it prints its port. A line
that comes later, `[N, {…}]`, changes them. Every request is a line of the log, written when it came in.
"""

import asyncio
import json
import math
import socket
import sys
import time
from pathlib import Path
from typing import TextIO

from ..support.simulated_origin import Origin

NETWORK = "127.1.0."
TOLERANCE_SECONDS = 0.1
"""Age of a request that may be on its way already when an origin asks for time."""


class Secrets:
    """All the origins of one process."""

    def __init__(self, origins: list[Origin], log: TextIO) -> None:
        self._origins = origins
        self._log = log
        self._told: dict[int, tuple[float, float]] = {}
        """By origin, when it last asked for time, and until when."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers requests of one connection, one after the other."""
        number = int(writer.get_extra_info("sockname")[0].rpartition(".")[2]) - 1
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                await self._answer(number, line.split()[1].decode(), reader, writer)
        except OSError:  # the fetcher was killed
            pass
        finally:
            writer.close()

    async def _answer(self, number: int, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        origin, now = self._origins[number], time.time()
        told_at, until = self._told.get(number, (now, now))
        is_served = origin.take(now)
        seen = {"served": is_served, "at_once": origin.at_once, "early": told_at + TOLERANCE_SECONDS < now < until}
        self._log.write(json.dumps({"domain": number + 1, "path": path, "at": now, **seen}) + "\n")
        self._log.flush()
        try:
            if math.isinf(origin.latency):
                await reader.read()  # until the other side gives up
            else:
                await asyncio.sleep(origin.latency)
                await self._send(number, origin, writer, is_served=is_served)
        finally:
            origin.left()

    async def _send(self, number: int, origin: Origin, writer: asyncio.StreamWriter, *, is_served: bool) -> None:
        if is_served:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage")
        else:
            now = time.time()
            self._told[number] = (now, max(self._told.get(number, (now, now))[1], now + origin.retry_after))
            wait = f"Retry-After: {origin.retry_after:.0f}\r\n" if origin.retry_after else ""
            writer.write(f"HTTP/1.1 429 Too Many Requests\r\n{wait}Content-Length: 0\r\n\r\n".encode())
        await writer.drain()

    def change(self, number: int, **limits: float) -> None:
        for name, value in limits.items():
            setattr(self._origins[number - 1], name, value)


async def main(log: Path, seconds: float) -> None:
    origins = [Origin(**json.loads(line)) for line in iter(sys.stdin.readline, "\n")]
    with log.open("w") as file:
        secrets = Secrets(origins, file)
        addresses = [f"{NETWORK}{number}" for number in range(1, len(origins) + 1)]
        port = _port_free_at(addresses)
        server = await asyncio.start_server(secrets.serve, addresses, port)
        print(port, flush=True)
        async with asyncio.timeout(seconds), server:
            while line := await asyncio.to_thread(sys.stdin.readline):
                number, limits = json.loads(line)
                secrets.change(number, **limits)


def _port_free_at(addresses: list[str]) -> int:
    """One that is free at the first of them, and so, most likely, at all."""
    with socket.create_server((addresses[0], 0)) as probe:
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))
