"""The waiting instance as a bare ASGI application: thousands of clients at a few kilobytes each."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import django

from .conf import conf
from .proxies import is_trusted

django.setup(set_prefix=False)

from .instance import Instance  # noqa: E402 - needs the apps
from .replies import Request, problem  # noqa: E402
from .tickets import STATUS  # noqa: E402

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

NOT_FOUND = problem(404, "Only waiting is done here.")


class Application:
    """Answers the path of RETRY_AFTER_SERVER and its status address, and 404 to all else."""

    def __init__(self) -> None:
        self.instance: Instance | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    def close(self) -> None:
        """Answers everyone who waits with the way back to this instance's successor."""
        if self.instance:
            self.instance.waiting.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self.instance = Instance()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.instance.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = urlsplit(conf().RETRY_AFTER_SERVER).path
        if self.instance and scope["path"] == path:
            reply = await self.instance.answer(_asked(scope), receive)
        elif self.instance and scope["path"] == path + STATUS:
            reply = await self.instance.status(_asked(scope))
        else:
            reply = NOT_FOUND
        if reply is None:
            return
        fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
        fields.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": fields})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else reply.body})


def _asked(scope: Scope) -> Request:
    given = {name: value.decode("latin-1") for name, value in scope["headers"]}
    peer = scope.get("client")
    return Request(
        method=scope["method"],
        query=scope["query_string"],
        host=given.get(b"host", ""),
        fetch_mode=given.get(b"sec-fetch-mode"),
        accept=given.get(b"accept"),
        front=given.get(b"x-front", ""),
        address=_address(peer[0] if peer else "", given.get(b"x-real-ip", "")),
    )


def _address(peer: str, real_ip: str) -> str:
    """The client's address. Only our own proxy's word is taken for it: a Unix socket has no address."""
    return real_ip if not peer or is_trusted(peer, conf().TRUSTED_PROXIES) else peer


application = Application()
