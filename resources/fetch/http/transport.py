"""One request and its answer, by aiohttp, directly or by an HTTP proxy (RFC 9110, 7.6; CONNECT for https).

Follows nothing, unpacks nothing, keeps no cookies. The guard cannot see the address that a proxy connects to. So an
origin is judged before the request, more strictly than without a proxy: if one of the addresses that its name has
here is refused, the proxy gets no request. The proxy looks the name up itself; its operator must see to it that it
refuses addresses that are not global.
"""

import asyncio
import socket
import ssl
from functools import lru_cache
from ipaddress import ip_network
from typing import Any

import aiohttp
from aiohttp import ClientRequest, hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError, StreamWriter
from multidict import CIMultiDict
from yarl import URL

from . import compression, guard
from .allowed_ips import AddressGuard, ExemptNetwork
from .bodies import Response, abort_connection
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
MAX_KNOWN_ORIGINS = 1024
MAX_REUSABLE_BODY_BYTES = 16_384
"""A larger body may still be on its way when its answer has come: its connection is not used again."""
MAX_STALE_TRIES = 3
"""Tries per request: a reused connection may be closed just then, or hold the rest of a too large answer.
Then another connection is taken.
"""


class Exchanges:
    """Requests and answers on the connections of aiohttp's connector. A session is not used: it would look for
    cookies, redirects, traces and proxies each time, and send some requests again by itself.
    """

    def __init__(self, connector: aiohttp.TCPConnector, user_agent: str, proxy: HttpProxy | None = None) -> None:
        self._proxy = proxy
        self._connector = connector
        self._fields = {"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": compression.ACCEPTED_CODINGS}
        self._find_template = lru_cache(MAX_KNOWN_ORIGINS)(self._build_template)

    async def ask(self, route: FetchRoute, limits: FetchLimits) -> Response:
        """Sends the request to the route's address and waits for the head of its answer. Raises FetchError."""
        if self._proxy is not None:
            await self._proxy.judge(route.target, limits.connect_seconds)
        for tries in range(1, MAX_STALE_TRIES + 1):
            attempt = guard.ConnectionAttempt()
            guard.current_attempt.set(attempt)
            try:
                return await self._send(route, attempt, _connect_timeout(limits.connect_seconds))
            except aiohttp.ConnectionTimeoutError as error:
                raise self._no_connection(route) from error
            except aiohttp.ClientConnectorError as error:
                raise guard.failure_of_error(error) from error
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError, HttpProcessingError) as error:
                # On a connection of its own the request was read: it is not sent twice.
                if attempt.connected or route.method == "POST" or tries == MAX_STALE_TRIES:
                    raise guard.failure_of_error(error) from error
            except (aiohttp.ClientError, OSError) as error:
                raise guard.failure_of_error(error) from error
        raise AssertionError("the last try returns or raises")

    def _build_template(self, scheme: str, authority: str) -> ClientRequest:
        """Returns a request that stands for all to an origin: the connector connects for it. It is never sent."""
        options: dict[str, Any] = {}
        if self._proxy is not None:
            options["proxy"] = self._proxy.url
            if scheme == "https":  # they go into the request for a tunnel
                # With Host, which aiohttp adds when it connects: they are part of the name of a pool of connections.
                options["proxy_headers"] = {hdrs.HOST: authority} | self._fields | self._proxy.fields
        url = URL.build(scheme=scheme, authority=authority, path="/", encoded=True)
        return ClientRequest("GET", url, headers=self._fields, **options)

    async def _send(
        self, route: FetchRoute, attempt: guard.ConnectionAttempt, timeout: aiohttp.ClientTimeout
    ) -> Response:
        """Sends the request once, and waits for the head of its answer."""
        template = self._find_template(route.target.scheme, route.target.authority)
        try:
            connection, protocol = await self._connect(template, attempt, timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"no connection to {route.target.host}") from error
        try:
            protocol.set_response_params(
                skip_payload=route.method == hdrs.METH_HEAD,
                read_until_eof=True,
                auto_decompress=False,
                max_field_size=MAX_HEADER_FIELD_BYTES,
                max_headers=MAX_HEADER_FIELDS,
            )
            writer = StreamWriter(protocol, asyncio.get_running_loop())
            await writer.write_headers(*self._build_head(route, template))
            if route.body:
                await writer.write(route.body, drain=False)  # an answer may come before all of it is read
            writer.set_eof()
            message, content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:
                message, content = await protocol.read()
        except BaseException:
            abort_connection(connection)
            raise
        return Response(message, content, connection, is_reusable=len(route.body) <= MAX_REUSABLE_BODY_BYTES)

    async def _connect(
        self, template: ClientRequest, attempt: guard.ConnectionAttempt, timeout: aiohttp.ClientTimeout
    ) -> tuple[Connection, ResponseHandler]:
        """Returns a new connection, or one to which no answer has come since its last one.

        Raises TimeoutError and ClientError.
        """
        while True:
            connection = await self._connector.connect(template, [], timeout)
            protocol = connection.protocol
            assert protocol is not None
            if attempt.connected or not protocol.should_close:
                return connection, protocol
            abort_connection(connection)

    def _build_head(self, route: FetchRoute, template: ClientRequest) -> tuple[str, CIMultiDict[str]]:
        """Returns the request line (RFC 9112, 3) and the fields."""
        request_target = route.target.path_and_query
        fields = template.headers.copy()
        fields.update(route.headers())
        if self._proxy is not None and route.target.scheme == "http":
            request_target = route.target.url
            fields.update(self._proxy.fields)
        if route.method == "POST" or route.body:
            fields[hdrs.CONTENT_LENGTH] = str(len(route.body))
        return f"{route.method} {request_target} HTTP/1.1", fields

    def _no_connection(self, route: FetchRoute) -> FetchError:
        """Returns the error of a connection that timed out. With TLS, the origin beyond a tunnel may be silent."""
        if self._proxy is not None and route.target.scheme == "http":
            return FetchError(Failure.OURS, "no connection to the proxy in time")
        return FetchError(Failure.TRANSIENT, "no connection in time", obstacle=Obstacle.CONNECTION)

    async def close(self) -> None:
        await self._connector.close()


@lru_cache(maxsize=16)
def _connect_timeout(connect_seconds: float) -> aiohttp.ClientTimeout:
    """Returns the timeout for DNS, the connection and TLS alone. The rest is `FetchPace`'s."""
    return aiohttp.ClientTimeout(total=None, connect=connect_seconds)
