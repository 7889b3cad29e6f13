"""`python -m benchmarks.feeds.hub_origin FD`: feeds that have an entry more after each `POST /next`.

Every path is a feed, at every loopback address. `GET /asked` says how often each address was asked since.
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

ITEM = "<item><guid isPermaLink='false'>{0}</guid><title>{0}</title></item>"


@contextmanager
def origin(module: str = "benchmarks.feeds.hub_origin") -> Iterator[int]:
    """An origin at all loopback addresses, and no others, in a process of its own: its port."""
    with socket.create_server(("0.0.0.0", 0), backlog=4096) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        run = [sys.executable, "-m", module, str(listening.fileno())]
        command = ["setpriv", "--pdeathsig", "KILL", *run]
        process = subprocess.Popen(command, pass_fds=[listening.fileno()])
        try:
            yield listening.getsockname()[1]
        finally:
            process.terminate()
            process.wait()


class Feeds:
    """Their contents, and the requests to them."""

    def __init__(self) -> None:
        self.entries, self.asked = 1, Counter[str]()

    async def next(self, _: web.Request) -> web.Response:
        self.entries, self.asked = self.entries + 1, Counter()
        return web.Response(text=str(self.entries))

    async def tell(self, _: web.Request) -> web.Response:
        return web.Response(text=json.dumps(self.asked))

    async def feed(self, request: web.Request) -> web.Response:
        self.asked[request.host] += 1
        items = "".join(ITEM.format(number) for number in range(self.entries, 0, -1))
        body = f"<rss version='2.0'><channel><title>{request.host}</title>{items}</channel></rss>"
        return web.Response(text=body, content_type="application/rss+xml")


async def serve(listening: socket.socket) -> None:
    feeds, app = Feeds(), web.Application()
    app.add_routes([web.post("/next", feeds.next), web.get("/asked", feeds.tell), web.get("/{path:.*}", feeds.feed)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1]))))
