"""The waiting instance's answers: a ticket's check, the wait, the way back. The core of asgi.py and views.py."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from urllib.parse import urlsplit

from django.conf import settings

from . import claims, connections, headers, observing, responses
from . import status as statuses
from .conf import conf
from .errors import TicketError
from .front import Front
from .looking import look
from .networks import network_of
from .preferences import is_navigation
from .replies import Reply, Request, problem
from .rooms import Outcome
from .subscribing import AGAIN_SECONDS, hear_ends_forever, look_again_forever
from .tickets import Ticket, read_ticket, ticket_address
from .waiting import Receive, Waiting

_log = logging.getLogger("tarry.waiting")

HANDED = "handed"
"""What nginx says (X-Front) of a request that main has handed over: it knows the address to return to."""

STATUSES_AT_ONCE = 50
"""Connections to each Redis server that questions for a status may take."""


class Instance:
    """The waiting instance of this process. Open it within the event loop that serves."""

    def __init__(self) -> None:
        self._front = Front(conf().RETRY_FRONT) if conf().RETRY_FRONT else None
        self.waiting = Waiting(self._front)
        self._per_network: dict[str, int] = {}
        self._clients: connections.Clients = {
            "state": connections.async_client("state"),
            "cache": connections.async_client("cache"),
        }
        self._asking = asyncio.Semaphore(STATUSES_AT_ONCE)
        self._tasks = [
            asyncio.create_task(_kept_up(lambda: hear_ends_forever(self.waiting))),
            asyncio.create_task(_kept_up(self.waiting.look_forever)),
            asyncio.create_task(_kept_up(lambda: look_again_forever(self.waiting))),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for client in self._clients.values():
            await client.aclose()
        if self._front:
            await self._front.close()

    async def answer(self, asked: Request, receive: Receive) -> Reply | None:
        """The answer, after the wait; None when the client has left."""
        ticket = admit(asked)
        if isinstance(ticket, Reply):
            return ticket
        if self.waiting.count >= conf().RETRY_MAX_CLIENTS:
            return problem(503, "Too many clients are waiting.", wait_seconds=_left_seconds(ticket))
        return await self._wait_within_limit(ticket, asked, receive)

    async def status(self, asked: Request) -> Reply:
        """How the ticket's content stands. Does not wait for it."""
        ticket = admit(asked)
        if isinstance(ticket, Reply):
            return ticket
        async with self._asking:
            steps = look(claims.looking(ticket.work_key), ticket.content_key, with_body=False)
            [found] = await connections.run_all(self._clients, [steps])
        return statuses.status(ticket, found)

    async def _wait_within_limit(self, ticket: Ticket, asked: Request, receive: Receive) -> Reply | None:
        most = conf().RETRY_CLIENTS_PER_ADDRESS
        if not most or not asked.address:
            return await self._wait(ticket, asked, receive)
        network = network_of(asked.address)
        if self._per_network.get(network, 0) >= most:
            return problem(503, "Too many requests of your address are waiting.", wait_seconds=_left_seconds(ticket))
        self._per_network[network] = self._per_network.get(network, 0) + 1
        try:
            return await self._wait(ticket, asked, receive)
        finally:
            self._per_network[network] -= 1
            if not self._per_network[network]:
                del self._per_network[network]

    async def _wait(self, ticket: Ticket, asked: Request, receive: Receive) -> Reply | None:
        seconds = min(ticket.seconds_left(time.time()), conf().DEFAULT_RETRY_TIMEOUT)
        is_last = ticket.hop >= conf().RETRY_MAX_WAITS or seconds < conf().DEFAULT_RETRY_TIMEOUT
        if self.waiting.closing:
            outcome = Outcome.CLOSING
        elif ticket.hop > conf().RETRY_MAX_WAITS or seconds <= 0:
            return _give_up(ticket, asked)
        else:
            outcome = await self.waiting.wait(ticket, asked.host, receive, seconds)
        observing.answered("retry", outcome.value)
        match outcome:
            case Outcome.GONE:
                return None
            case Outcome.READY:
                return _send_back(ticket, asked)
            case Outcome.CLOSING:
                return _redirect(_own_address(ticket), "Tarry; fwd=miss; detail=reload", _left_seconds(ticket))
            case Outcome.TIME_UP if is_last:
                return _give_up(ticket, asked)
            case Outcome.TIME_UP:
                return _redirect(_own_address(ticket.next_hop()), "Tarry; fwd=miss; detail=wait", _left_seconds(ticket))


def admit(asked: Request) -> Ticket | Reply:
    """The ticket, or the answer to a request that has none that is honoured. Does not wait."""
    if asked.method == "OPTIONS":
        return Reply(204, {**headers.PREFLIGHT, **headers.uncached("Tarry; fwd=bypass")})
    if asked.method not in ("GET", "HEAD"):
        reply = problem(405, "Only GET and HEAD are answered here.")
        return Reply(reply.status, {**reply.headers, "Allow": headers.ALLOW}, reply.body)
    try:
        return read_ticket(asked.query, now=time.time(), max_age_seconds=conf().RETRY_TICKET_SECONDS, hosts=_hosts())
    except TicketError as error:
        return problem(error.status, error.detail)


async def _kept_up(task: Callable[[], Coroutine[None, None, None]]) -> None:
    """Runs a task of this process for as long as it lives, whatever befalls it."""
    while True:
        try:
            await task()
        except Exception:  # noqa: BLE001 - the edge of a background task: without it nobody would be woken any more
            _log.exception("started again")
        await asyncio.sleep(AGAIN_SECONDS)


def _give_up(ticket: Ticket, asked: Request) -> Reply:
    """The waits are used up, or the time that the client gave, while the preparation goes on."""
    seconds = _left_seconds(ticket)
    applied = headers.preference(ticket.respond_async, ticket.wait_seconds)
    if ticket.respond_async:
        return statuses.accepted(ticket, seconds, why="wait", preference=applied)
    if is_navigation(asked.fetch_mode, asked.accept):
        fields = headers.uncached('Tarry; fwd=miss; detail="gave up"', seconds)
        body = responses.waiting_html(ticket.redirect, headers.whole_seconds(seconds)).encode()
        return Reply(503, {**fields, "Content-Type": "text/html; charset=utf-8", **headers.PAGE}, body)
    detail = "It takes longer than a client should wait. It is still being prepared."
    return problem(503, detail, wait_seconds=seconds, preference=applied)


def _send_back(ticket: Ticket, asked: Request) -> Reply:
    """The way back: for the client to go, or for nginx, where it stands between and may deliver."""
    if conf().RETRY_DELIVERY == "redirect" or not asked.front:
        return _redirect(ticket.redirect, "Tarry; fwd=miss; detail=ready", None)
    if asked.front == HANDED:
        return Reply(200, {"X-Accel-Redirect": headers.RETURNED})
    parts = urlsplit(ticket.redirect)._replace(scheme="", netloc="")
    path = urlsplit(conf().RETRY_AFTER_SERVER).path
    return Reply(200, {"X-Accel-Redirect": f"{path}/returned{parts.geturl()}"})


def _redirect(location: str, cache_status: str, wait_seconds: float | None) -> Reply:
    return Reply(302, {**headers.uncached(cache_status, wait_seconds), "Location": location})


def _own_address(ticket: Ticket) -> str:
    return ticket_address(ticket, conf().RETRY_AFTER_SERVER)


def _left_seconds(ticket: Ticket) -> float:
    return conf().again_seconds(ticket.retry_after - time.time())


def _hosts() -> frozenset[str]:
    """Hosts that an absolute redirect may name: PUBLIC_URL's and those that are allowed by name."""
    allowed = {host for host in settings.ALLOWED_HOSTS if host != "*" and not host.startswith(".")}
    return frozenset({urlsplit(conf().PUBLIC_URL).netloc, *allowed} - {""})
