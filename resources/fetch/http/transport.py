"""One request and its answer, by aiohttp. Follows nothing, unpacks nothing, keeps no cookies.

It asks no proxy but the one that it was given.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from http.cookies import SimpleCookie
from typing import Any

import aiohttp
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, hdrs
from multidict import CIMultiDict
from yarl import URL

from ..addressing.routes import Route
from ..errors import FetchError
from ..outcomes import Failure, Obstacle
from ..requests import Limits
from . import decoding, failing, guarding
from .proxying import Proxy

MAX_FIELDS = 100
MAX_FIELD_BYTES = 16_384
SETTLE_BYTES = 16_384
SETTLE_SECONDS = 0.2
STALE_TRIES = 3
"""A connection that is used again may be closed just then, or hold what was too much of the answer before.
Then another is taken, so many times."""


_NO_TYPE = (hdrs.CONTENT_TYPE,)


class _NoCookies(aiohttp.DummyCookieJar):
    """Has none for anybody, and need not make an empty set of them for each request."""

    _none: SimpleCookie = SimpleCookie()

    def filter_cookies(self, request_url: URL) -> "SimpleCookie":
        return self._none


class Exchanges:
    """A session of aiohttp, set up to do nothing by itself."""

    def __init__(self, connector: aiohttp.TCPConnector, user_agent: str, proxy: Proxy | None = None) -> None:
        self._proxy = proxy
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=_NoCookies(),
            auto_decompress=False,
            trust_env=False,
            headers={"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": decoding.ACCEPTED},
            max_field_size=MAX_FIELD_BYTES,
            max_headers=MAX_FIELDS,
            middlewares=(_only_once,),
        )

    async def ask(self, route: Route, limits: Limits) -> ClientResponse:
        """Sends the request to the route's address and waits for the head of its answer. Raises FetchError."""
        target = route.target
        url = URL.build(
            scheme=target.scheme,
            authority=target.authority,
            path=target.path,
            query_string=target.query or "",
            encoded=True,
        )
        headers = route.headers()
        options = {} if self._proxy is None else await self._prepare(self._proxy, route, headers, limits)
        if route.method == "POST" or route.body:  # aiohttp would make up a type
            options["skip_auto_headers"] = _NO_TYPE
        for tries in range(1, STALE_TRIES + 1):
            attempt = guarding.Attempt()
            guarding.current_attempt.set(attempt)
            try:
                return await self._session.request(
                    route.method,
                    url,
                    data=route.body or None,
                    headers=headers,
                    allow_redirects=False,
                    timeout=_timeout(limits.connect_seconds),
                    **options,
                )
            except aiohttp.ConnectionTimeoutError as error:
                raise self._no_connection(route) from error
            except (failing.Disconnected, aiohttp.ClientResponseError) as error:
                # On a connection of its own the request was read: it is not sent twice.
                if attempt.connected or route.method == "POST" or tries == STALE_TRIES:
                    raise failing.meaning(error) from error
            except (aiohttp.ClientError, OSError) as error:
                raise failing.meaning(error) from error
        raise AssertionError("the last try returns or raises")

    async def _prepare(self, proxy: Proxy, route: Route, headers: CIMultiDict[str], limits: Limits) -> dict[str, Any]:
        """What aiohttp is told about the proxy. Raises FetchError for an origin that it is not asked for."""
        await proxy.judge(route.target, limits.connect_seconds)
        headers.update(proxy.fields_to_origin(route.target))
        return {"proxy": proxy.url, "proxy_headers": proxy.fields_of_tunnel(route.target)}

    def _no_connection(self, route: Route) -> FetchError:
        """With TLS it may be the origin, at the other end of a tunnel, that does not answer."""
        if self._proxy is not None and route.target.scheme == "http":
            return FetchError(Failure.OURS, "no connection to the proxy in time")
        return FetchError(Failure.TRANSIENT, "no connection in time", obstacle=Obstacle.CONNECTION)

    async def close(self) -> None:
        await self._session.close()


async def settle(response: ClientResponse) -> None:
    """Reads what is left of a small body that nobody wants, so that its connection can be used again."""
    length = response.content_length
    if response.content.is_eof() or length is None or length > SETTLE_BYTES:
        return
    with suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(SETTLE_SECONDS):
            await response.content.read()


@contextmanager
def watched(response: ClientResponse) -> Iterator[None]:
    """Ends the body when the connection has ended: after malformed chunks aiohttp leaves its reader waiting."""
    content, connection = response.content, response.connection
    protocol = connection.protocol if connection is not None else None
    closed = protocol.closed if protocol is not None else None
    if closed is None or content.is_eof():
        yield
        return

    def check(_: "asyncio.Future[None]") -> None:
        closed.get_loop().call_soon(_end, content)

    closed.add_done_callback(check)
    try:
        yield
    finally:
        closed.remove_done_callback(check)
        # The connection lives on. Whoever it breaks for then, asyncio must not complain that nobody looked.
        closed.remove_done_callback(_look)
        closed.add_done_callback(_look)


def _end(content: aiohttp.StreamReader) -> None:
    if not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError("malformed"))


def _look(closed: "asyncio.Future[None]") -> None:
    if not closed.cancelled():
        closed.exception()


@lru_cache(maxsize=16)
def _timeout(connect_seconds: float) -> aiohttp.ClientTimeout:
    """For DNS, the connection and TLS alone. The rest is `Pace`'s."""
    return aiohttp.ClientTimeout(total=None, connect=connect_seconds)


async def _only_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Keeps aiohttp from sending a request again on its own, which it does on the errors that this one renames."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise failing.Disconnected(str(error)) from error
