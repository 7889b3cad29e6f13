"""`python -m benchmarks.feeds.subscriber_origin FD`: callbacks of subscribers, at every loopback address.

`POST /well/<number>` takes a delivery, if its signature is that of the subscriber with that number; `/slow/` takes it
after three seconds, `/broken/` answers 500, `/silent/` never answers. `POST /next` forgets all deliveries, `GET /told`
says when each number had its first one, how many came again, and how many had a wrong signature.
"""

import asyncio
import hashlib
import hmac
import json
import socket
import sys
import time
from contextlib import AbstractContextManager

import uvloop
from aiohttp import web

from . import hub_origin

SLOW_SECONDS = 3.0


def secret_of(number: int) -> str:
    return f"the secret of {number}"


def subscribers() -> AbstractContextManager[int]:
    """An origin at all loopback addresses, in a process of its own: its port."""
    return hub_origin.origin("benchmarks.feeds.subscriber_origin")


class Callbacks:
    """The first delivery to each number, in Unix seconds."""

    def __init__(self) -> None:
        self.told = dict[int, float]()
        self.again = self.forged = 0

    async def next(self, _: web.Request) -> web.Response:
        self.told, self.again, self.forged = {}, 0, 0
        return web.Response()

    async def tell(self, _: web.Request) -> web.Response:
        return web.Response(text=json.dumps({"told": self.told, "again": self.again, "forged": self.forged}))

    async def take(self, request: web.Request) -> web.Response:
        manner, number = request.match_info["manner"], int(request.match_info["number"])
        body = await request.read()
        match manner:
            case "silent":
                await asyncio.sleep(600)
            case "slow":
                await asyncio.sleep(SLOW_SECONDS)
            case "broken":
                return web.Response(status=500)
        signature = hmac.new(secret_of(number).encode(), body, hashlib.sha256).hexdigest()
        if request.headers["X-Hub-Signature"] != f"sha256={signature}":
            self.forged += 1
        self.again += number in self.told
        self.told.setdefault(number, time.time())
        return web.Response(status=204)


async def serve(listening: socket.socket) -> None:
    callbacks, app = Callbacks(), web.Application(client_max_size=10_000_000)
    app.add_routes([web.post("/next", callbacks.next), web.get("/told", callbacks.tell)])
    app.add_routes([web.post(r"/{manner}/{number:\d+}", callbacks.take)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listening, backlog=4096).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(socket.socket(fileno=int(sys.argv[1]))))
