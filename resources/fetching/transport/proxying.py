"""An HTTP proxy that requests go out by (RFC 9110, 7.6; CONNECT for https).

The guard cannot see which address a proxy connects to. So an origin is judged before it is asked for, more strictly
than without a proxy: one address that is refused, of all that its name has here, and the proxy is not asked. The
proxy looks the name up itself; that it refuses what is not global, as this machine would, is its operator's to see to.
"""

import asyncio
import socket
import ssl
from ipaddress import ip_network

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from ..addressing.addresses import Exempt, Guard
from ..addressing.targets import Target
from ..errors import FetchError
from ..outcomes import Failure, Obstacle
from . import failing, guarding

_AUTHORIZATION = "Proxy-Authorization"


class Proxy:
    """`url` is http://user:password@host:port. It is connected to wherever it is: the operator has named it."""

    def __init__(self, url: str, lookup: AbstractResolver, guard: Guard) -> None:
        given = URL(url)
        self.url = given.with_user(None)
        self._lookup = lookup
        self._guard = guard
        self._fields: dict[str, str] = {}
        if given.user:
            self._fields[_AUTHORIZATION] = aiohttp.encode_basic_auth(given.user, given.password or "")

    def connector(self, tls: ssl.SSLContext | None) -> aiohttp.TCPConnector:
        """Connections to the proxy, and to no other port."""
        assert self.url.port is not None
        anywhere = (Exempt(ip_network(every), self.url.port) for every in ("0.0.0.0/0", "::/0"))
        return guarding.connector(Guard(frozenset(), tuple(anywhere)), _ProxyLookup(self._lookup), tls, None)

    async def judge(self, target: Target, connect_seconds: float) -> None:
        """Raises FetchError for an origin that has any address which is not fetched from, or none at all."""
        try:
            async with asyncio.timeout(connect_seconds):
                addresses = await self._addresses(target)
        except TimeoutError as error:
            raise FetchError(Failure.TRANSIENT, "no answer of DNS in time", obstacle=Obstacle.LOOKUP) from error
        except OSError as error:
            raise failing.of_lookup(error) from error
        for address in addresses:
            if refusal := self._guard.refusal(address, target.port):
                raise FetchError(Failure.REFUSED, f"{target.host}: {refusal}")

    def fields_to_origin(self, target: Target) -> dict[str, str]:
        """Header fields for the proxy in the request itself, which it reads where there is no TLS.

        aiohttp adds them to the first request of each connection only.
        """
        return self._fields if target.scheme == "http" else {}

    def fields_of_tunnel(self, target: Target) -> dict[str, str]:
        """Those of the request for a tunnel, before it."""
        return self._fields if target.scheme == "https" else {}

    async def _addresses(self, target: Target) -> list[str]:
        if target.is_address:
            return [target.host]
        found = await self._lookup.resolve(target.host, target.port)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        return [each["host"] for each in found]


class _ProxyLookup(AbstractResolver):
    """Looks the proxy itself up: when it cannot be found, no origin is to blame."""

    def __init__(self, lookup: AbstractResolver) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            return await self._lookup.resolve(host, port, family)
        except OSError as error:
            raise failing.ProxyNotFoundError(f"the proxy {host} could not be looked up") from error

    async def close(self) -> None:
        return  # it belongs to the client
