"""The client: requests one URL, follows its redirects, and returns the outcome.

It raises for nothing that a server does. It does not decide when to fetch, how often, or how many at a time.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver
from multidict import MultiMapping

from . import bodies, compression, freshness, url_syntax
from . import guard as http_guard
from .bodies import Response, drain_body, watch_connection
from .deadlines import DeadlineWatch, FetchPace, FetchPolicy
from .messages import (
    Body,
    BodyDropped,
    Failure,
    Fetched,
    FetchError,
    FetchFailed,
    FetchLimits,
    FetchRequest,
    Head,
    Hop,
    NotModified,
    Outcome,
    is_sendable,
)
from .retry_policy import failure_of_status
from .transport import Exchanges, HttpProxy
from .url_syntax import REDIRECT_STATUSES, FetchRoute, Target

MAX_VALIDATOR_CHARACTERS = 1000

MAX_LENGTH_DIGITS = 19


def read_head(response: Response, url: str, hops: list[Hop], limits: FetchLimits, now: float) -> Head:
    """Returns the head of the answer of `url` at `now`, in Unix seconds. Raises FetchError if it is too large."""
    if sum(map(len, chain.from_iterable(response.raw_headers))) > limits.max_head_bytes:
        raise FetchError(Failure.TOO_BIG, "header fields beyond the limit", status=response.status)
    headers = response.headers
    return Head(
        status=response.status,
        url=url,
        headers=headers,
        received_at=now,
        hops=tuple(hops),
        content_type=_storable_text(headers.get(hdrs.CONTENT_TYPE, "")),
        content_length=_parse_length(headers.get(hdrs.CONTENT_LENGTH), chunked=hdrs.TRANSFER_ENCODING in headers),
        etag=_check_validator(headers.get(hdrs.ETAG)),
        last_modified=_check_validator(headers.get(hdrs.LAST_MODIFIED)),
        retry_after_seconds=_read_retry_after(headers, now) if hdrs.RETRY_AFTER in headers else None,
    )


def _read_retry_after(headers: MultiMapping[str], now: float) -> float | None:
    """Returns the seconds of Retry-After, if it is there and makes sense."""
    date = freshness.parse_http_date(headers.get(hdrs.DATE, ""), now)
    return freshness.parse_retry_after(headers.getall(hdrs.RETRY_AFTER, []), now, date=date)


def _parse_length(value: str | None, *, chunked: bool) -> int | None:
    if value is None or chunked or len(value) > MAX_LENGTH_DIGITS or not (value.isascii() and value.isdigit()):
        return None
    return int(value)


def _check_validator(value: str | None) -> str | None:
    """Returns the validator as received; None if it is too long to keep, or of bytes that cannot be sent back."""
    if not value or len(value) > MAX_VALIDATOR_CHARACTERS or not is_sendable(value):
        return None
    return value


def _storable_text(value: str) -> str:
    """Replaces the half surrogates that stand for bytes which are no UTF-8: no store takes them."""
    return value if value.isascii() else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


DecideOnHead = Callable[[Head], Awaitable[bool]]
"""Takes the head of an answer of 2xx; returns True to drop its body."""
OnSlowBody = Callable[[], None]
"""Called once if a body turns out slow and goes on under the limits for slow bodies. It must not block."""

DecideOnRedirect = Callable[[str], Awaitable[bool]]
"""Takes the address that a redirect leads to; returns True to stop there."""

WaitForTurn = Callable[[str], Awaitable[None]]
"""Waits until the address that a redirect leads to may be requested. Raises FetchError if that takes too long."""

EMPTY_BODY = Body(0, data=b"")
_STATUSES_WITHOUT_BODY = frozenset({204, 205})


@dataclass(slots=True)
class _FetchProgress:
    """The progress of a fetch, and the functions of its caller."""

    pace: FetchPace
    decide: DecideOnHead | None
    turn: WaitForTurn | None
    onward: DecideOnRedirect | None
    hops: list[Hop] = field(default_factory=list)
    status: int | None = None
    url: str = ""


def may_send_from(source_address: str) -> bool:
    """Tells whether this machine has the address. Sends nothing."""
    return http_guard.has_address(source_address)


class FetchClient:
    """Runs as `async with FetchClient(policy) as client`. Any number of fetches may run at a time.

    `lookup` replaces the system's DNS, `tls` its certificates. Requests come from `source_address`, an
    address of this machine, or go through `proxy`, http://user:password@host:port.
    """

    def __init__(
        self,
        policy: FetchPolicy,
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
        self._watch = DeadlineWatch()
        self._spools = bodies.SpoolFolder(policy.spool_directory, policy.take_room)

    async def __aenter__(self) -> Self:
        self._lookup = self._lookup or http_guard.SystemLookup()
        self._exchanges = self._open_exchanges(self._lookup)
        return self

    def _open_exchanges(self, lookup: AbstractResolver) -> Exchanges:
        guard, agent = self._policy.guard, self._policy.user_agent
        if self._proxy_url is None:
            return Exchanges(http_guard.build_connector(guard, lookup, self._tls, self._source_address), agent)
        proxy = HttpProxy(self._proxy_url, lookup, guard)
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
        fetch: FetchRequest,
        decide: DecideOnHead | None = None,
        slows: OnSlowBody | None = None,
        turn: WaitForTurn | None = None,
        onward: DecideOnRedirect | None = None,
    ) -> Outcome:
        """Returns the outcome by the deadline. Raises only the errors of the four callbacks, FetchError apart.

        The caller moves a body's file away or discards it.
        """
        loop = asyncio.get_running_loop()
        pace = FetchPace(self._watch, fetch, slows, started_at=time.time(), now=loop.time())
        trip = _FetchProgress(pace, decide, turn, onward)
        try:
            with pace:
                return await self._follow(fetch, trip)
        except TimeoutError:
            if not pace.has_ended:
                raise
            ended = pace.ran_out(loop.time())
        except FetchError as error:
            ended = error.with_traceback(None)  # in which this call would keep itself in memory, and the answer
        status = trip.status if ended.status is None else ended.status
        timing = pace.timing(loop.time())
        wait, hops = ended.retry_after_seconds, tuple(trip.hops)
        return FetchFailed(ended.failure, ended.detail, timing, status, wait, hops, trip.url, ended.obstacle)

    async def _follow(self, fetch: FetchRequest, trip: _FetchProgress) -> Outcome:
        """Sends the request, and follows redirects. Raises FetchError."""
        assert self._exchanges is not None, "the client is not open"
        loop = asyncio.get_running_loop()
        route = FetchRoute.begin(fetch)
        while True:
            url = route.target.url
            self._check(route.target, url)
            if trip.turn is not None and trip.hops:
                await trip.turn(url)
            trip.url = url
            trip.pace.awaits_head(loop.time())
            response = await self._exchanges.ask(route, fetch.limits)
            try:
                trip.pace.has_head(loop.time())
                trip.status = response.status
                head = read_head(response, url, trip.hops, fetch.limits, time.time())
                if head.status not in REDIRECT_STATUSES:
                    return await self._conclude(route, response, head, trip)
                trip.hops.append(Hop(url, head.status))
                location = head.headers.get(hdrs.LOCATION)
                following = route.after(head.status, location, allow_downgrade=self._policy.allow_downgrade)
                await drain_body(response, head.content_length)
            finally:
                response.close()
            if trip.onward is not None and await trip.onward(following.target.url):
                met = replace(head, hops=tuple(trip.hops))
                return BodyDropped(met, trip.pace.timing(loop.time()), following.target.url)
            route = following

    def _check(self, target: Target, url: str) -> None:
        """Checks an address without any request. Raises FetchError."""
        if not self._policy.guard.may_use(target.port):
            raise FetchError(Failure.REFUSED, f"port {target.port} is not fetched from")
        expiry = url_syntax.find_url_expiry(url)
        if expiry is not None and expiry <= time.time():
            raise FetchError(Failure.EXPIRED, "the signature in the address has run out")

    async def _conclude(self, route: FetchRoute, response: Response, head: Head, trip: _FetchProgress) -> Outcome:
        """Returns the outcome of the last answer. Raises FetchError."""
        loop = asyncio.get_running_loop()
        if head.status == 304 and route.sends_validators:
            await drain_body(response, head.content_length)
            return NotModified(head, trip.pace.timing(loop.time()))
        if head.status == 407 and self._proxy_url is not None:
            raise FetchError(Failure.OURS, "the proxy does not accept the user and the password")
        if head.status != 200:
            await _check_status(route, response, head)
        has_body = route.method != "HEAD" and head.status not in _STATUSES_WITHOUT_BODY
        is_slow = has_body and bodies.needs_slow_limits(route.fetch, head, trip.pace.seconds_so_far(loop.time()))
        if trip.decide is not None and await trip.decide(head):
            return BodyDropped(head, trip.pace.timing(loop.time()))
        if is_slow:
            trip.pace.slow_down(loop.time())
        body = EMPTY_BODY
        if has_body:
            body = bodies.take_whole_body(response, trip.pace) or await self._receive_body(response, trip.pace)
        return Fetched(head, body, trip.pace.timing(loop.time()))

    async def _receive_body(self, response: Response, pace: FetchPace) -> Body:
        decoder = compression.build_decoder(", ".join(response.headers.getall(hdrs.CONTENT_ENCODING, ())))
        spool = bodies.BodySpool(self._spools, pace.limits.spool_bytes)
        try:
            with nullcontext() if response.content.is_eof() else watch_connection(response):
                return await bodies.receive_body(response.content, decoder, spool, pace)
        except BaseException as error:
            spool.discard()
            if isinstance(error, aiohttp.ClientError | OSError):
                raise http_guard.failure_of_error(error) from error.with_traceback(None)  # the same
            raise


async def _check_status(route: FetchRoute, response: Response, head: Head) -> None:
    """Raises FetchError for an answer that does not fit the request."""
    if head.status == 304:
        raise FetchError(Failure.TRANSIENT, "answered 304 to a request that had no condition")
    if head.status == 206 and not route.wants_part:
        raise FetchError(Failure.TRANSIENT, "answered with a part of what was asked for")
    wait = head.retry_after_seconds
    failure = failure_of_status(head.status, asked_to_wait=wait is not None)
    if failure is not None:
        await drain_body(response, head.content_length)
        raise FetchError(failure, f"answered {head.status}", retry_after_seconds=wait)
