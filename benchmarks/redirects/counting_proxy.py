"""A proxy between clients and the site that counts the answers to each of them."""

import asyncio
import re
from collections import defaultdict
from contextlib import suppress
from types import TracebackType
from typing import Self

_NAME = re.compile(rb"(?:/|%2F)slow(?:/|%2F)([0-9a-z-]+)")  # in tickets as well
_HOP_BY_HOP = re.compile(rb"\r\n(?:Connection|Keep-Alive|Upgrade|HTTP2-Settings):[^\r\n]*", re.IGNORECASE)


class CountingProxy:
    """Passes requests without bodies on, each over a connection of its own. `statuses` are by content name."""

    def __init__(self, host: str) -> None:
        self._address, _, port = host.rpartition(":")
        self._port = int(port)
        self._server: asyncio.Server | None = None
        self.statuses: dict[str, list[int]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def base_url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            answer = asyncio.create_task(self._ask(head, writer))
            gone = asyncio.create_task(reader.read())
            await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
            gone.cancel()
            answer.cancel()  # a client that left is left alone, as by any other proxy
        writer.close()

    async def _ask(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        upstream, asking = await asyncio.open_connection(self._address, self._port, limit=1 << 20)
        try:
            asking.write(_HOP_BY_HOP.sub(b"", head)[:-2] + b"Connection: close\r\n\r\n")
            line = await upstream.readline()
            if name := _NAME.search(head):
                self.statuses[name[1].decode()].append(int(line.split()[1]))
            writer.write(line + await upstream.read())
            await writer.drain()
        finally:
            asking.close()
