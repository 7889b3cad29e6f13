"""Connects only to addresses that the guard lets pass, and tells the failure that an error stands for.

The guard decides on the very address that a socket is made for. Names are looked up once, and the checked address
is the connected one, so a changed answer of DNS changes nothing. Of an answer with several addresses, the refused
ones are not tried.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from .allowed_ips import AddressGuard
from .messages import Failure, FetchError, Obstacle

DNS_THREADS = 32
DNS_CACHE_SECONDS = 30
"""Time for which an answer is reused."""
MAX_TRIED_ADDRESSES = 16
"""Addresses of one answer that are tried: more are never needed, and each may take its time."""
KEEP_ALIVE_SECONDS = 15.0

AddressInfo = tuple[Any, ...]


class AddressRefusedError(OSError):
    """An address that is not connected to. An OSError for aiohttp, which passes it on."""


@dataclass(slots=True)
class ConnectionAttempt:
    """Notes whether a request needed a new connection. aiohttp does not tell whether it reused one."""

    connected: bool = False


current_attempt: ContextVar[ConnectionAttempt] = ContextVar("current_attempt")


class SystemLookup(AbstractResolver):
    """The system's own lookups, in threads of their own: a domain with silent servers blocks a thread for long."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(DNS_THREADS, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        )
        return [build_resolve_result(host, str(address[0]), port, family) for family, _, _, _, address in found]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def build_resolve_result(host: str, address: str, port: int, family: socket.AddressFamily) -> ResolveResult:
    """Returns one address of an answer, in aiohttp's form."""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


class GuardedLookup(AbstractResolver):
    """Leaves refused addresses out of an answer. Raises AddressRefusedError if none is left.

    It reports early, and in words, a refusal that `make_socket` would find: addresses without lookup are checked
    only there.
    """

    def __init__(self, lookup: AbstractResolver, guard: AddressGuard) -> None:
        self._lookup = lookup
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._lookup.resolve(host, port, family)
        if not found:  # aiohttp's cache would stumble on it
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        refusals = {each["host"]: self._guard.refusal(each["host"], port) for each in found}
        allowed = [each for each in found if refusals[each["host"]] is None]
        if not allowed:
            raise AddressRefusedError(f"{host}: {'; '.join(why for why in refusals.values() if why)}"[:300])
        return allowed[:MAX_TRIED_ADDRESSES]

    async def close(self) -> None:
        await self._lookup.close()


def make_socket(guard: AddressGuard, info: AddressInfo) -> socket.socket:
    """Makes a socket for an allowed address: aiohttp's `socket_factory`. Raises AddressRefusedError."""
    family, kind, protocol, _, address = info
    refusal = guard.refusal(str(address[0]), int(address[1]))
    if refusal is not None:
        raise AddressRefusedError(refusal)
    current_attempt.get().connected = True
    return socket.socket(family, kind, protocol)


def has_address(address: str) -> bool:
    """Tells whether a socket of this machine may have the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def build_connector(
    guard: AddressGuard, lookup: AbstractResolver, tls: ssl.SSLContext | None, source_address: str | None
) -> aiohttp.TCPConnector:
    """Returns a connector without a limit of connections. `source_address` is an address of this machine."""
    return aiohttp.TCPConnector(
        resolver=GuardedLookup(lookup, guard),
        socket_factory=partial(make_socket, guard),
        ssl=tls if tls is not None else True,
        local_addr=(source_address, 0) if source_address else None,
        ttl_dns_cache=DNS_CACHE_SECONDS,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        limit=0,
    )


MAX_DETAIL_CHARACTERS = 300

_OUR_ERRNOS = frozenset({errno.ENETDOWN, errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""No network, no ports, no files, no memory. No route to one address is not among them: that may be the address's."""
_NO_SUCH_NAME = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class ProxyNotFoundError(OSError):
    """The name of a proxy that has no address."""


def failure_of_error(error: Exception) -> FetchError:
    """Returns the failure that an error stands for. Ignores the state of the fetch."""
    refusal = next((each for each in _walk_causes(error) if isinstance(each, AddressRefusedError)), None)
    if refusal is not None:
        return FetchError(Failure.REFUSED, str(refusal))
    match error:
        case aiohttp.ClientConnectorCertificateError():
            invalid = _describe_error("a certificate that is not valid", error.certificate_error)
            return FetchError(Failure.PERMANENT, invalid, obstacle=Obstacle.TLS)
        case aiohttp.ClientConnectorSSLError():
            return FetchError(Failure.TRANSIENT, _describe_error("no TLS", error.os_error), obstacle=Obstacle.TLS)
        case aiohttp.ClientConnectorDNSError():
            return failure_of_lookup(error.os_error)
        case aiohttp.ClientProxyConnectionError():
            return FetchError(Failure.OURS, _describe_error("no connection to the proxy", error.os_error))
        case aiohttp.ClientHttpProxyError():
            return _failure_of_proxy(error.status)
        case aiohttp.InvalidURL():
            return FetchError(Failure.PERMANENT, "an address that cannot be asked")
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return _failure_of_head(error)
        case aiohttp.ClientPayloadError():
            return FetchError(Failure.TRANSIENT, "a body that is cut short or malformed")
    return _failure_of_system(error)


def failure_of_lookup(error: OSError) -> FetchError:
    if isinstance(error, ProxyNotFoundError):
        return FetchError(Failure.OURS, str(error))
    if isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME:
        return FetchError(Failure.PERMANENT, "there is no such host", obstacle=Obstacle.LOOKUP)
    failed = _describe_error("the host's name could not be looked up", error)
    return FetchError(Failure.TRANSIENT, failed, obstacle=Obstacle.LOOKUP)


def _failure_of_proxy(status: int) -> FetchError:
    """Returns the failure of a proxy that opened no tunnel."""
    if status == 407:
        return FetchError(Failure.OURS, "the proxy does not accept the user and the password")
    if status == 403:
        return FetchError(Failure.REFUSED, "the proxy does not connect to that address")
    return FetchError(Failure.TRANSIENT, f"the proxy has no connection: it answered {status}")


def _failure_of_head(error: Exception) -> FetchError:
    # aiohttp has no type for too many fields.
    large = any(isinstance(each, LineTooLong) or "Too many headers" in str(each) for each in _walk_causes(error))
    if large:
        return FetchError(Failure.TOO_BIG, "header fields beyond the limit")
    return FetchError(Failure.TRANSIENT, "an answer that is not HTTP")


def _failure_of_system(error: Exception) -> FetchError:
    numbers = {number for each in _walk_causes(error) if (number := getattr(each, "errno", None)) is not None}
    if numbers & _OUR_ERRNOS:
        return FetchError(Failure.OURS, _describe_error("this machine could not", error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return FetchError(
            Failure.TRANSIENT, _describe_error("no connection", error.os_error), obstacle=Obstacle.CONNECTION
        )
    return FetchError(Failure.TRANSIENT, _describe_error("the connection broke", error))


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    """Yields the error, its causes, and the errors that aiohttp keeps inside."""
    found: BaseException | None = error
    while found is not None:
        yield found
        inner = getattr(found, "os_error", None)
        if isinstance(inner, BaseException):
            yield inner
        found = found.__cause__


def _describe_error(what: str, error: BaseException) -> str:
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return f"{what}: {why}"[:MAX_DETAIL_CHARACTERS]
