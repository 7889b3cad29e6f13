"""The client: asks one server for one thing, follows its redirects, and says what came of it.

It raises for nothing that a server does. It does not decide when to ask, how often, or how many at a time.
"""

import asyncio
import inspect
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.hdrs import CONTENT_ENCODING

from ..addressing import signed_urls
from ..addressing.routes import REDIRECTS, Route
from ..addressing.targets import Target
from ..errors import FetchError
from ..outcomes import Body, Dropped, Failed, Failure, Fetched, Head, Hop, NotModified, Outcome
from ..requests import Fetch
from . import announced, bodies, decoding, failing, guarding, heads
from .exchanges import Exchanges, settle, watched
from .giving_up import failure_of_status
from .pacing import Pace, Watch
from .policy import Policy
from .proxying import Proxy

Decide = Callable[[Head], bool | Awaitable[bool]]
"""Looks at the head of an answer of 2xx; whether to drop its body."""
Slows = Callable[[], None]
"""Is told, once, that a body turned out to be slow and goes on under the limits for those. It must not block."""

Onward = Callable[[str], Awaitable[bool]]
"""Looks at an address that a redirect leads to; whether to leave it at that."""

Turn = Callable[[str], Awaitable[None]]
"""Waits until an address may be asked that a redirect leads to. Raises FetchError when that takes too long."""

NO_BODY = Body(0, sha256().hexdigest(), data=b"")
_WITHOUT_BODY = frozenset({204, 205})


@dataclass(slots=True)
class _Trip:
    """What a fetch has met so far."""

    pace: Pace
    hops: list[Hop] = field(default_factory=list)
    status: int | None = None
    url: str = ""


@dataclass(frozen=True, slots=True)
class _Callers:
    """What the caller has a say in."""

    decide: Decide | None
    turn: Turn | None
    onward: Onward | None


class Client:
    """Use it as `async with Client(policy) as client`. Any number of fetches may run at a time.

    `lookup` takes the place of the system's DNS, `tls` of its certificates. Requests come from `source_address`, an
    address of this machine, or go through `proxy`, http://user:password@host:port.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        lookup: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        source_address: str | None = None,
        proxy: str | None = None,
    ) -> None:
        self._policy = policy
        self._lookup = lookup
        self._tls = tls
        self._source_address = source_address
        self._proxy_url = proxy
        self._exchanges: Exchanges | None = None
        self._watch = Watch()
        self._spools = bodies.Spools(policy.spool_directory)

    async def __aenter__(self) -> Self:
        self._lookup = self._lookup or guarding.SystemLookup()
        self._exchanges = self._connected(self._lookup)
        return self

    def _connected(self, lookup: AbstractResolver) -> Exchanges:
        guard, agent = self._policy.guard, self._policy.user_agent
        if self._proxy_url is None:
            return Exchanges(guarding.connector(guard, lookup, self._tls, self._source_address), agent)
        proxy = Proxy(self._proxy_url, lookup, guard)
        return Exchanges(proxy.connector(self._tls), agent, proxy)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._exchanges is not None
        assert self._lookup is not None
        await self._exchanges.close()
        await self._lookup.close()
        await asyncio.to_thread(self._spools.close)

    async def fetch(
        self,
        fetch: Fetch,
        decide: Decide | None = None,
        slows: Slows | None = None,
        turn: Turn | None = None,
        onward: Onward | None = None,
    ) -> Outcome:
        """What came of it, by its deadline. Raises only what the four raise, FetchError apart.

        A body in a file belongs to the caller, who moves it away or discards it.
        """
        loop = asyncio.get_running_loop()
        trip = _Trip(Pace(self._watch, fetch, slows, started_at=time.time(), now=loop.time()))
        try:
            with trip.pace:
                return await self._follow(fetch, _Callers(decide, turn, onward), trip)
        except TimeoutError:
            if not trip.pace.has_ended:
                raise
            ended = trip.pace.ran_out(loop.time())
        except FetchError as error:
            ended = error
        status = trip.status if ended.status is None else ended.status
        timing = trip.pace.timing(loop.time())
        wait, hops = ended.retry_after_seconds, tuple(trip.hops)
        return Failed(ended.failure, ended.detail, timing, status, wait, hops, trip.url, ended.obstacle)

    async def _follow(self, fetch: Fetch, callers: "_Callers", trip: _Trip) -> Outcome:
        """Asks, and asks elsewhere as often as it is redirected. Raises FetchError."""
        assert self._exchanges is not None, "the client is not open"
        loop = asyncio.get_running_loop()
        route = Route.begin(fetch)
        while True:
            url = route.target.url
            self._check(route.target, url)
            if callers.turn is not None and trip.hops:
                await callers.turn(url)
            trip.url = url
            trip.pace.awaits_head(loop.time())
            response = await self._exchanges.ask(route, fetch.limits)
            try:
                trip.pace.has_head(loop.time())
                trip.status = response.status
                head = heads.read(response, url, trip.hops, fetch.limits, time.time())
                if head.status not in REDIRECTS:
                    return await self._conclude(route, callers.decide, response, head, trip)
                trip.hops.append(Hop(url, head.status))
                location = head.headers.get("Location")
                following = route.after(head.status, location, allow_downgrade=self._policy.allow_downgrade)
                await settle(response)
            finally:
                if not response.closed:
                    response.close()
            if callers.onward is not None and await callers.onward(following.target.url):
                met = replace(head, hops=tuple(trip.hops))
                return Dropped(met, trip.pace.timing(loop.time()), following.target.url)
            route = following

    def _check(self, target: Target, url: str) -> None:
        """What can be told of an address without asking anybody. Raises FetchError."""
        if not self._policy.guard.may_use(target.port):
            raise FetchError(Failure.REFUSED, f"port {target.port} is not fetched from")
        expiry = signed_urls.expires_at(url)
        if expiry is not None and expiry <= time.time():
            raise FetchError(Failure.EXPIRED, "the signature in the address has run out")

    async def _conclude(
        self, route: Route, decide: Decide | None, response: aiohttp.ClientResponse, head: Head, trip: _Trip
    ) -> Outcome:
        """What the last answer amounts to. Raises FetchError."""
        loop = asyncio.get_running_loop()
        if head.status == 304 and route.sends_validators:
            await settle(response)
            return NotModified(head, trip.pace.timing(loop.time()))
        if head.status == 407 and self._proxy_url is not None:
            raise FetchError(Failure.OURS, "the proxy does not accept the user and the password")
        if head.status != 200:
            await _check_status(route, response, head)
        has_body = route.method != "HEAD" and head.status not in _WITHOUT_BODY
        is_slow = has_body and announced.is_slow(route.fetch, head, trip.pace.seconds_so_far(loop.time()))
        if decide is not None and await _decided(decide, head):
            return Dropped(head, trip.pace.timing(loop.time()))
        if is_slow:
            trip.pace.slow_down(loop.time())
        body = NO_BODY
        if has_body:
            body = bodies.at_once(response, trip.pace) or await self._take(response, trip.pace)
        return Fetched(head, body, trip.pace.timing(loop.time()))

    async def _take(self, response: aiohttp.ClientResponse, pace: Pace) -> Body:
        decoder = decoding.decoder(", ".join(response.headers.getall(CONTENT_ENCODING, ())))
        spool = bodies.Spool(self._spools, pace.limits.spool_bytes)
        try:
            with nullcontext() if response.content.is_eof() else watched(response):
                return await bodies.receive(response.content, decoder, spool, pace)
        except (aiohttp.ClientError, OSError) as error:
            spool.discard()
            raise failing.meaning(error) from error
        except BaseException:
            spool.discard()
            raise


async def _check_status(route: Route, response: aiohttp.ClientResponse, head: Head) -> None:
    """Raises FetchError for an answer that is not what was asked for."""
    if head.status == 304:
        raise FetchError(Failure.TRANSIENT, "answered 304 to a request that had no condition")
    if head.status == 206 and not route.wants_part:
        raise FetchError(Failure.TRANSIENT, "answered with a part of what was asked for")
    wait = head.retry_after_seconds
    failure = failure_of_status(head.status, asked_to_wait=wait is not None)
    if failure is not None:
        await settle(response)
        raise FetchError(failure, f"answered {head.status}", retry_after_seconds=wait)


async def _decided(decide: Decide, head: Head) -> bool:
    found = decide(head)
    return await found if inspect.isawaitable(found) else bool(found)
