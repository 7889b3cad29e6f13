"""The waiting instance's answers: the check of a ticket, the wait, the way back, the status address.

The core of asgi.py and views.py. `Prefer: respond-async` sends a client to the status address, which tells the
state of the content without a wait.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from urllib.parse import urlsplit

from django.conf import settings

from . import claims, headers, metrics, responses, stores
from .conf import conf
from .decision import look_up_content
from .errors import TicketError
from .headers import client_network, is_navigation
from .responses import ClientReply, ClientRequest, problem_reply
from .rooms import FrontClient, Receive, WaitingClients, WaitOutcome
from .subscription import RETRY_PAUSE_SECONDS, hear_ends_forever, look_again_forever
from .tickets import Ticket, read_ticket, ticket_address

_log = logging.getLogger("tarry.waiting")

X_FRONT_HANDED = "handed"
"""The value of X-Front for a request that main has handed over: nginx knows the address to return to."""

MAX_STATUS_LOOKS = 50
"""Connections to each Redis server that requests for a status may take."""


class WaitingInstance:
    """The waiting instance of this process. Must be created within the serving event loop."""

    def __init__(self) -> None:
        self._front = FrontClient(conf().RETRY_FRONT) if conf().RETRY_FRONT else None
        self.waiting = WaitingClients(self._front)
        self._per_network: dict[str, int] = {}
        self._clients = stores.async_clients()
        self._asking = asyncio.Semaphore(MAX_STATUS_LOOKS)
        self._tasks = [
            asyncio.create_task(_run_forever(lambda: hear_ends_forever(self.waiting))),
            asyncio.create_task(_run_forever(self.waiting.look_forever)),
            asyncio.create_task(_run_forever(lambda: look_again_forever(self.waiting))),
        ]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for client in self._clients.values():
            await client.aclose()
        if self._front:
            await self._front.close()

    async def answer(self, asked: ClientRequest, receive: Receive) -> ClientReply | None:
        """Answers after the wait. Returns None if the client has left."""
        ticket = admit_ticket(asked)
        if isinstance(ticket, ClientReply):
            return ticket
        if self.waiting.count >= conf().RETRY_MAX_CLIENTS:
            return problem_reply(503, "Too many clients are waiting.", wait_seconds=_expected_seconds(ticket))
        return await self._wait_within_limit(ticket, asked, receive)

    async def status(self, asked: ClientRequest) -> ClientReply:
        """Answers with the state of the ticket's content. Does not wait for it."""
        ticket = admit_ticket(asked)
        if isinstance(ticket, ClientReply):
            return ticket
        async with self._asking:
            steps = look_up_content(claims.look_call(ticket.work_key), ticket.content_key, with_body=False)
            [found] = await stores.run_all(self._clients, [steps])
        return responses.status_reply(ticket, found)

    async def _wait_within_limit(self, ticket: Ticket, asked: ClientRequest, receive: Receive) -> ClientReply | None:
        most = conf().RETRY_CLIENTS_PER_ADDRESS
        if not most or not asked.address:
            return await self._wait(ticket, asked, receive)
        network = client_network(asked.address)
        if self._per_network.get(network, 0) >= most:
            text = "Too many requests from your address are waiting."
            return problem_reply(503, text, wait_seconds=_expected_seconds(ticket))
        self._per_network[network] = self._per_network.get(network, 0) + 1
        try:
            return await self._wait(ticket, asked, receive)
        finally:
            self._per_network[network] -= 1
            if not self._per_network[network]:
                del self._per_network[network]

    async def _wait(self, ticket: Ticket, asked: ClientRequest, receive: Receive) -> ClientReply | None:
        seconds = min(ticket.seconds_left(time.time()), conf().DEFAULT_RETRY_TIMEOUT)
        is_last = ticket.hop >= conf().RETRY_MAX_WAITS or seconds < conf().DEFAULT_RETRY_TIMEOUT
        if self.waiting.closing:
            outcome = WaitOutcome.CLOSING
        elif ticket.hop > conf().RETRY_MAX_WAITS or seconds <= 0:
            return _give_up_reply(ticket, asked)
        else:
            outcome = await self.waiting.wait(ticket, asked.host, receive, seconds)
        metrics.count_answer("retry", outcome.value)
        match outcome:
            case WaitOutcome.GONE:
                return None
            case WaitOutcome.READY:
                return _send_back_reply(ticket, asked)
            case WaitOutcome.CLOSING:
                return _wait_on_reply(ticket, "reload")
            case WaitOutcome.TIME_UP if is_last:
                return _give_up_reply(ticket, asked)
            case WaitOutcome.TIME_UP:
                return _wait_on_reply(ticket.next_hop(), "wait")


def admit_ticket(asked: ClientRequest) -> Ticket | ClientReply:
    """Returns the ticket, or the answer to a request without a valid ticket. Does not wait."""
    if reply := responses.other_method_reply(asked.method):
        return reply
    max_age_seconds = conf().RETRY_TICKET_SECONDS
    try:
        return read_ticket(asked.query, now=time.time(), max_age_seconds=max_age_seconds, hosts=_redirect_hosts())
    except TicketError as error:
        return problem_reply(error.status, error.detail)


async def _run_forever(task: Callable[[], Coroutine[None, None, None]]) -> None:
    """Runs a task for the life of this process, and restarts it after every error."""
    while True:
        try:
            await task()
        except Exception:  # noqa: BLE001 - the edge of a background task: without it no client would be woken
            _log.exception("started again")
        await asyncio.sleep(RETRY_PAUSE_SECONDS)


def _give_up_reply(ticket: Ticket, asked: ClientRequest) -> ClientReply:
    """Answers a client whose waits or own time limit are used up. The preparation goes on."""
    seconds = _expected_seconds(ticket)
    applied = headers.preference_text(ticket.respond_async, ticket.wait_seconds)
    if ticket.respond_async:
        return responses.accepted_reply(ticket, seconds, why="wait", preference=applied)
    if is_navigation(asked.fetch_mode, asked.accept):
        fields = headers.uncached_headers('Tarry; fwd=miss; detail="gave up"', seconds)
        body = responses.waiting_html(ticket.redirect, headers.whole_seconds(seconds)).encode()
        return ClientReply(503, {**fields, "Content-Type": "text/html; charset=utf-8", **headers.PAGE_HEADERS}, body)
    detail = "The preparation takes longer than the limit for waiting. It continues: try again later."
    return problem_reply(503, detail, wait_seconds=seconds, preference=applied)


def _send_back_reply(ticket: Ticket, asked: ClientRequest) -> ClientReply:
    """The way back: a redirect for the client, or one within nginx if nginx may deliver."""
    if conf().RETRY_DELIVERY == "redirect" or not asked.front:
        return responses.redirect_reply(ticket.redirect, None, "ready")
    if asked.front == X_FRONT_HANDED:
        return ClientReply(200, {"X-Accel-Redirect": headers.RETURNED_LOCATION})
    parts = urlsplit(ticket.redirect)._replace(scheme="", netloc="")
    path = urlsplit(conf().RETRY_AFTER_SERVER).path
    return ClientReply(200, {"X-Accel-Redirect": f"{path}/returned{parts.geturl()}"})


def _wait_on_reply(ticket: Ticket, why: str) -> ClientReply:
    address = ticket_address(ticket, conf().RETRY_AFTER_SERVER)
    return responses.redirect_reply(address, _expected_seconds(ticket), why)


def _expected_seconds(ticket: Ticket) -> float:
    return conf().again_seconds(ticket.retry_after - time.time())


def _redirect_hosts() -> frozenset[str]:
    """The hosts that an absolute redirect may name: that of PUBLIC_URL, and those in ALLOWED_HOSTS by name."""
    allowed = {host for host in settings.ALLOWED_HOSTS if host != "*" and not host.startswith(".")}
    return frozenset({urlsplit(conf().PUBLIC_URL).netloc, *allowed} - {""})
