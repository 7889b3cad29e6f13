"""Connects only to addresses that the guard lets pass: it decides on the very address that a socket is made for.

Names are looked up once, and what is connected to is what was checked, so an answer of DNS that changes meanwhile
changes nothing. Of an answer with several addresses, those that are refused are not tried.
"""

import asyncio
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from ..addressing.addresses import Guard

DNS_THREADS = 32
DNS_SECONDS = 30
"""How long an answer is used again."""
MAX_ADDRESSES = 16
"""How many addresses of an answer are tried: nobody needs more, and each may take its time."""
KEEP_ALIVE_SECONDS = 15.0

AddrInfo = tuple[Any, ...]


class AddressRefusedError(OSError):
    """An address that is not connected to. One error of the system to aiohttp, which it passes on."""


@dataclass(slots=True)
class Attempt:
    """Whether a request needed a connection of its own. aiohttp does not tell whether it used an old one."""

    connected: bool = False


current_attempt: ContextVar[Attempt | None] = ContextVar("current_attempt", default=None)


class SystemLookup(AbstractResolver):
    """The system's own lookups, in threads of their own: a domain whose servers are silent holds one for long."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(DNS_THREADS, thread_name_prefix="dns")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._threads, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        )
        return [result(host, str(address[0]), port, family) for family, _, _, _, address in found]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def result(host: str, address: str, port: int, family: socket.AddressFamily) -> ResolveResult:
    """One address of an answer, in aiohttp's form."""
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


class GuardedLookup(AbstractResolver):
    """Leaves out of an answer what is refused. Raises AddressRefusedError when nothing is left.

    Says early, and in words, what `socket_factory` would find: addresses that nobody looked up come only there.
    """

    def __init__(self, lookup: AbstractResolver, guard: Guard) -> None:
        self._lookup = lookup
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._lookup.resolve(host, port, family)
        if not found:  # on which aiohttp's cache would stumble
            raise socket.gaierror(socket.EAI_NONAME, "no address")
        refusals = {each["host"]: self._guard.refusal(each["host"], port) for each in found}
        allowed = [each for each in found if refusals[each["host"]] is None]
        if not allowed:
            raise AddressRefusedError(f"{host}: {'; '.join(why for why in refusals.values() if why)}"[:300])
        return allowed[:MAX_ADDRESSES]

    async def close(self) -> None:
        await self._lookup.close()


class GuardedSockets:
    """Makes sockets for addresses that pass, and none for others: aiohttp's `socket_factory`."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def __call__(self, info: AddrInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        refusal = self._guard.refusal(str(address[0]), int(address[1]))
        if refusal is not None:
            raise AddressRefusedError(refusal)
        attempt = current_attempt.get()
        if attempt is not None:
            attempt.connected = True
        return socket.socket(family, kind, protocol)


def connector(
    guard: Guard, lookup: AbstractResolver, tls: ssl.SSLContext | None, source_address: str | None
) -> aiohttp.TCPConnector:
    """Connections for a session, as many as are asked for. `source_address` is an address of this machine."""
    return aiohttp.TCPConnector(
        resolver=GuardedLookup(lookup, guard),
        socket_factory=GuardedSockets(guard),
        ssl=tls if tls is not None else True,
        local_addr=(source_address, 0) if source_address else None,
        ttl_dns_cache=DNS_SECONDS,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        limit=0,
    )


def refusal_in(error: BaseException) -> AddressRefusedError | None:
    """The guard's refusal inside an error of aiohttp, if that is what it was."""
    inner: Sequence[BaseException | None] = (error, getattr(error, "os_error", None), error.__cause__)
    return next((each for each in inner if isinstance(each, AddressRefusedError)), None)
