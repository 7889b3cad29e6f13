"""One request and its answer, by aiohttp, directly or by an HTTP proxy (RFC 9110, 7.6; CONNECT for https).

Follows nothing, unpacks nothing, keeps no cookies. The guard cannot see the address that a proxy connects to. So an
origin is judged before the request, more strictly than without a proxy: if one of the addresses that its name has
here is refused, the proxy gets no request. The proxy looks the name up itself; its operator must see to it that it
refuses addresses that are not global.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from ipaddress import ip_network
from typing import Any

import aiohttp
from aiohttp import ClientRequest, ClientResponse, hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict
from yarl import URL

from . import compression, guard
from .allowed_ips import AddressGuard, ExemptNetwork
from .messages import Failure, FetchError, FetchLimits, Obstacle
from .url_syntax import FetchRoute, Target


class HttpProxy:
    """An HTTP proxy. `url` is http://user:password@host:port; any address is allowed: the operator has named it.

    `fields` are header fields for the proxy itself.
    """

    def __init__(self, url: str, lookup: AbstractResolver, guard: AddressGuard) -> None:
        given = URL(url)
        self.url = given.with_user(None)
        self._lookup = lookup
        self._guard = guard
        self.fields: dict[str, str] = {}
        if given.user:
            self.fields[hdrs.PROXY_AUTHORIZATION] = aiohttp.encode_basic_auth(given.user, given.password or "")

    def connector(self, tls: ssl.SSLContext | None) -> aiohttp.TCPConnector:
        """Returns a connector to the proxy, and to no other port."""
        assert self.url.port is not None
        anywhere = (ExemptNetwork(ip_network(every), self.url.port) for every in ("0.0.0.0/0", "::/0"))
        return guard.build_connector(AddressGuard(frozenset(), tuple(anywhere)), _ProxyLookup(self._lookup), tls, None)

    async def judge(self, target: Target, connect_seconds: float) -> None:
        """Raises FetchError for an origin with any refused address, or with none at all."""
        try:
            async with asyncio.timeout(connect_seconds):
                addresses = await self._addresses(target)
        except TimeoutError as error:
            raise FetchError(Failure.TRANSIENT, "no answer of DNS in time", obstacle=Obstacle.LOOKUP) from error
        except OSError as error:
            raise guard.failure_of_lookup(error) from error
        for address in addresses:
            if refusal := self._guard.refusal(address, target.port):
                raise FetchError(Failure.REFUSED, f"{target.host}: {refusal}")

    async def _addresses(self, target: Target) -> list[str]:
        if target.is_address:
            return [target.host]
        found = await self._lookup.resolve(target.host, target.port)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return [each["host"] for each in found]


class _ProxyLookup(AbstractResolver):
    """Looks up the proxy itself: its failure is no origin's fault."""

    def __init__(self, lookup: AbstractResolver) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            return await self._lookup.resolve(host, port, family)
        except OSError as error:
            raise guard.ProxyNotFoundError(f"the proxy {host} could not be looked up") from error

    async def close(self) -> None:
        return  # it belongs to the client


MAX_HEADER_FIELDS = 100
MAX_HEADER_FIELD_BYTES = 16_384
MAX_DRAINED_BYTES = 16_384
MAX_DRAIN_SECONDS = 0.2
MAX_STALE_TRIES = 3
"""Tries per request: a reused connection may be closed just then, or hold the rest of a too large answer.
Then another connection is taken.
"""


class Exchanges:
    """Requests and answers by aiohttp's connector. Its session sends nothing: it would look for cookies, redirects,
    traces and proxies each time, and send some requests again by itself.
    """

    def __init__(self, connector: aiohttp.TCPConnector, user_agent: str, proxy: HttpProxy | None = None) -> None:
        self._proxy = proxy
        self._connector = connector
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        self._fields = CIMultiDict(
            {"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": compression.ACCEPTED_CODINGS}
        )

    async def ask(self, route: FetchRoute, limits: FetchLimits) -> ClientResponse:
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
            options["skip_auto_headers"] = {hdrs.CONTENT_TYPE}
        for tries in range(1, MAX_STALE_TRIES + 1):
            attempt = guard.ConnectionAttempt()
            guard.current_attempt.set(attempt)
            try:
                request = ClientRequest(
                    route.method,
                    url,
                    headers=self._with_own_fields(headers),
                    data=route.body or None,
                    session=self._session,
                    **options,
                )
                return await self._send(request, _connect_timeout(limits.connect_seconds))
            except aiohttp.ConnectionTimeoutError as error:
                raise self._no_connection(route) from error
            except aiohttp.ClientConnectorError as error:
                raise guard.failure_of_error(error) from error
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, aiohttp.ClientResponseError) as error:
                # On a connection of its own the request was read: it is not sent twice.
                if attempt.connected or route.method == "POST" or tries == MAX_STALE_TRIES:
                    raise guard.failure_of_error(error) from error
            except (aiohttp.ClientError, OSError) as error:
                raise guard.failure_of_error(error) from error
        raise AssertionError("the last try returns or raises")

    async def _prepare(
        self, proxy: HttpProxy, route: FetchRoute, headers: CIMultiDict[str], limits: FetchLimits
    ) -> dict[str, Any]:
        """Returns aiohttp's options for the proxy. Raises FetchError for an origin that must not be requested."""
        await proxy.judge(route.target, limits.connect_seconds)
        if route.target.scheme == "https":  # they go into the request for a tunnel
            return {"proxy": proxy.url, "proxy_headers": self._with_own_fields(proxy.fields)}
        headers.update(proxy.fields)  # aiohttp adds them to the first request of each connection only
        return {"proxy": proxy.url}

    def _with_own_fields(self, fields: Mapping[str, str]) -> CIMultiDict[str]:
        every = self._fields.copy()
        every.update(fields)
        return every

    async def _send(self, request: ClientRequest, timeout: aiohttp.ClientTimeout) -> ClientResponse:
        """Sends the request once, and waits for the head of its answer."""
        try:
            connection = await self._connector.connect(request, [], timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"no connection to {request.url.host}") from error
        try:
            assert connection.protocol is not None
            connection.protocol.set_response_params(
                skip_payload=request.method == hdrs.METH_HEAD,
                read_until_eof=True,
                auto_decompress=False,
                max_field_size=MAX_HEADER_FIELD_BYTES,
                max_headers=MAX_HEADER_FIELDS,
            )
            response = await request.send(connection)
            try:
                await response.start(connection)
            except BaseException:
                response.close()
                raise
        except BaseException:
            connection.close()
            raise
        return response

    def _no_connection(self, route: FetchRoute) -> FetchError:
        """Returns the error of a connection that timed out. With TLS, the origin beyond a tunnel may be silent."""
        if self._proxy is not None and route.target.scheme == "http":
            return FetchError(Failure.OURS, "no connection to the proxy in time")
        return FetchError(Failure.TRANSIENT, "no connection in time", obstacle=Obstacle.CONNECTION)

    async def close(self) -> None:
        await self._session.close()


async def drain_body(response: ClientResponse) -> None:
    """Reads the rest of a small unwanted body, so that its connection can be used again."""
    length = response.content_length
    if response.content.is_eof() or length is None or length > MAX_DRAINED_BYTES:
        return
    with suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(MAX_DRAIN_SECONDS):
            await response.content.read()


@contextmanager
def watch_connection(response: ClientResponse) -> Iterator[None]:
    """Ends the body when the connection has ended: after malformed chunks aiohttp leaves its reader waiting."""
    content, connection = response.content, response.connection
    protocol = connection.protocol if connection is not None else None
    closed = protocol.closed if protocol is not None else None
    if closed is None or content.is_eof():
        yield
        return

    def check(_: "asyncio.Future[None]") -> None:
        closed.get_loop().call_soon(_end_body, content)

    closed.add_done_callback(check)
    try:
        yield
    finally:
        closed.remove_done_callback(check)
        # The connection lives on. If it breaks later, asyncio must not complain of an unread exception.
        closed.remove_done_callback(_retrieve_exception)
        closed.add_done_callback(_retrieve_exception)


def _end_body(content: aiohttp.StreamReader) -> None:
    if not content.is_eof() and content.exception() is None:
        content.set_exception(aiohttp.ClientPayloadError("malformed"))


def _retrieve_exception(closed: "asyncio.Future[None]") -> None:
    if not closed.cancelled():
        closed.exception()


@lru_cache(maxsize=16)
def _connect_timeout(connect_seconds: float) -> aiohttp.ClientTimeout:
    """Returns the timeout for DNS, the connection and TLS alone. The rest is `FetchPace`'s."""
    return aiohttp.ClientTimeout(total=None, connect=connect_seconds)
