"""The waiting instance as a bare ASGI application: thousands of clients at a few kilobytes each."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import django

django.setup(set_prefix=False)

from .conf import conf  # noqa: E402
from .headers import is_trusted_proxy  # noqa: E402
from .html_pages import present_reply  # noqa: E402
from .instance import WaitingInstance  # noqa: E402
from .responses import ClientReply, ClientRequest, problem_reply  # noqa: E402
from .streams import EventStream, open_streams  # noqa: E402
from .tickets import STATUS_PATH  # noqa: E402

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

SELECTING_FIELDS = frozenset(
    {b"range", b"if-range", b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since"}
)
"""Fields of a request that wants a part of its content, or none (RFC 9110, 13 and 14)."""

NOT_FOUND = problem_reply(404, "This instance only serves waiting requests.")


class WaitingApplication:
    """Answers the path of RETRY_AFTER_SERVER and its status address, streams, and 404 everywhere else."""

    def __init__(self) -> None:
        self.instance: WaitingInstance | None = None
        self._streams: dict[str, EventStream] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    def admits(self, address: str) -> bool:
        """Tells whether a connection over TCP from the address is a front's."""
        return is_trusted_proxy(address, conf().FRONTS)

    def close(self) -> None:
        """Answers all waiting clients with the way back to this instance's successor, and ends all streams."""
        if self.instance:
            self.instance.waiting.close()
        for stream in self._streams.values():
            stream.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        self.instance, self._streams = WaitingInstance(), open_streams()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.instance.close()
        for stream in self._streams.values():
            await stream.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = _read_request(scope)
        if (stream := self._streams.get(scope["path"])) is not None:
            reply = await stream.serve(asked, _read_last_id(scope), receive, send)
        else:
            reply = await self._find_reply(scope["path"], asked, receive)
        if reply is None:
            return
        reply = present_reply(reply, asked)
        fields = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
        fields.append((b"content-length", str(len(reply.body)).encode()))
        await send({"type": "http.response.start", "status": reply.status, "headers": fields})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else reply.body})

    async def _find_reply(self, asked_path: str, asked: ClientRequest, receive: Receive) -> ClientReply | None:
        path = urlsplit(conf().RETRY_AFTER_SERVER).path
        if self.instance and asked_path == path:
            return await self.instance.answer(asked, receive)
        if self.instance and asked_path == path + STATUS_PATH:
            return await self.instance.status(asked, receive)
        return NOT_FOUND


def _read_request(scope: Scope) -> ClientRequest:
    given = {name: value.decode("latin-1") for name, value in scope["headers"]}
    peer = (scope.get("client") or ("",))[0]
    # X-Real-IP counts only from our own proxy. A Unix socket has no address.
    passed_on = not peer or is_trusted_proxy(peer, (*conf().TRUSTED_PROXIES, *conf().FRONTS))
    return ClientRequest(
        method=scope["method"],
        query=scope["query_string"],
        host=given.get(b"host", ""),
        fetch_mode=given.get(b"sec-fetch-mode"),
        accept=given.get(b"accept"),
        front=given.get(b"x-front", ""),
        prefer=given.get(b"prefer"),
        address=given.get(b"x-real-ip", "") if passed_on else peer,
        is_simple=scope["method"] == "GET" and not SELECTING_FIELDS & given.keys(),
    )


def _read_last_id(scope: Scope) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"), "")


application = WaitingApplication()
