"""The waiting instance's answers: the check of a ticket, the wait, the way back, the status address.

The core of asgi.py and views.py. `Prefer: respond-async` sends a client to the status address, which tells the
state of the content: without a wait, or with `Prefer: wait=N` after one.
"""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import urlsplit

from django.conf import settings

from . import contents, headers, html_pages, line, metrics, responses, servers, stores
from .conf import conf
from .contents import Content, StoredNotice
from .decision import LookResult
from .errors import TicketError
from .headers import client_network, is_picture, prefers_page, read_preferences
from .responses import ClientReply, ClientRequest, problem_reply
from .rooms import FrontClient, Receive, WaitingClient, WaitingClients, WaitOutcome
from .subscription import RETRY_PAUSE_SECONDS, NoticeListener, hear_ends_forever, look_again_forever
from .tickets import Ticket, read_ticket, ticket_address

_log = logging.getLogger("tarry.waiting")

X_FRONT_HANDED = "handed"
"""The value of X-Front for a request that main has handed over: nginx knows the address to return to."""

MAX_DELIVERIES = 8
"""Contents that the waiting instance delivers at a time. A crowd goes back to main, for the front has its content."""

_LEAST_VERSION = re.compile(rb"&least_version=([0-9]{1,20})$")
"""What hand_over_response() adds to the ticket. The query of a request that main has handed over is main's own."""

MAX_STATUS_LOOKS = 50
"""Connections to each Redis server that requests for a status may take."""


class WaitingInstance:
    """The waiting instance of this process. Must be created within the serving event loop."""

    def __init__(self) -> None:
        self._front = FrontClient(conf().RETRY_FRONT) if conf().RETRY_FRONT else None
        database = servers.database_number(conf().CACHE_URL)
        notices = None if database is None else NoticeListener(database)  # each node of a Cluster would pass all on
        self.waiting = WaitingClients(self._front, notices)
        self._per_network: dict[str, int] = {}
        self._clients = stores.async_clients()
        self._asking = asyncio.Semaphore(MAX_STATUS_LOOKS)
        self._delivering = 0
        line.load_lines()
        self._tasks = [
            asyncio.create_task(_run_forever(lambda: hear_ends_forever(self.waiting))),
            asyncio.create_task(_run_forever(self.waiting.look_forever)),
            asyncio.create_task(_run_forever(lambda: look_again_forever(self.waiting))),
        ]
        if notices:
            listening = _run_forever(lambda: notices.listen_forever(self.waiting))
            self._tasks.append(asyncio.create_task(listening))

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
        with self._take_place(asked.address) as refusal:
            if refusal:
                return problem_reply(503, refusal, wait_seconds=_expected_seconds(ticket))
            return await self._wait(ticket, asked, receive)

    async def status(self, asked: ClientRequest, receive: Receive) -> ClientReply | None:
        """Answers with the state of the ticket's content: at once, or for `Prefer: wait=N` after a wait for it.

        Returns None if the client has left.
        """
        ticket = admit_ticket(asked)
        if isinstance(ticket, ClientReply):
            return ticket
        seconds = min(read_preferences(asked.prefer).wait_seconds or 0, int(conf().DEFAULT_RETRY_TIMEOUT))
        if seconds and not await self._stay(ticket, asked, receive, seconds):
            return None
        found, waiting = await self._look(ticket)
        preference = headers.preference_text(None, seconds or None)
        return responses.status_reply(ticket, found, waiting=waiting, preference=preference)

    async def _stay(self, ticket: Ticket, asked: ClientRequest, receive: Receive, seconds: float) -> bool:
        """Waits if there is a place. Returns False if the client has left."""
        with self._take_place(asked.address) as refusal:
            if refusal or self.waiting.closing:
                return True
            client = await self.waiting.wait(ticket, asked.host, receive, seconds)
            return client.outcome is not WaitOutcome.GONE

    async def _look(self, ticket: Ticket) -> tuple[LookResult | Exception, str]:
        """Returns the state of the content, and the sentence for people; empty if the work is not claimed."""
        async with self._asking:
            [state] = await stores.run_all(self._clients, [line.look_up_ticket(ticket)])
        return (state, "") if isinstance(state, Exception) else (state.found, state.waiting)

    @contextmanager
    def _take_place(self, address: str) -> Iterator[str]:
        """Takes a place for a client at the address. Yields the refusal if there is none, empty text if there is."""
        most = conf().RETRY_CLIENTS_PER_ADDRESS
        network = client_network(address) if most else ""
        if self.waiting.count >= conf().RETRY_MAX_CLIENTS:
            yield "Too many clients are waiting."
        elif not network:
            yield ""
        elif self._per_network.get(network, 0) >= most:
            yield "Too many requests from your address are waiting."
        else:
            self._per_network[network] = self._per_network.get(network, 0) + 1
            try:
                yield ""
            finally:
                self._per_network[network] -= 1
                if not self._per_network[network]:
                    del self._per_network[network]

    async def _wait(self, ticket: Ticket, asked: ClientRequest, receive: Receive) -> ClientReply | None:
        seconds = min(ticket.seconds_left(time.time()), _most_seconds(ticket))
        is_last = ticket.hop >= conf().RETRY_MAX_WAITS or seconds < conf().DEFAULT_RETRY_TIMEOUT
        client: WaitingClient | None = None
        if self.waiting.closing:
            outcome = WaitOutcome.CLOSING
        elif ticket.hop > conf().RETRY_MAX_WAITS or seconds <= 0:
            return await self._give_up(ticket, asked)
        else:
            client = await self.waiting.wait(ticket, asked.host, receive, seconds)
            outcome = client.outcome
        metrics.count_answer("retry", outcome.value)
        match outcome:
            case WaitOutcome.GONE:
                return None
            case WaitOutcome.READY:
                notice = client.notice if client else None
                return await self._deliver(ticket, asked, notice) or _send_back_reply(ticket, asked)
            case WaitOutcome.CLOSING:
                return _wait_on_reply(ticket, "reload")
            case WaitOutcome.TIME_UP if is_last or ticket.page is not None:
                return await self._give_up(ticket, asked)
            case WaitOutcome.TIME_UP:
                return _wait_on_reply(ticket.next_hop(), "wait")

    async def _deliver(self, ticket: Ticket, asked: ClientRequest, notice: StoredNotice | None) -> ClientReply | None:
        """Answers a request that main has handed over, if all that main would do is to serve fresh content."""
        version = _LEAST_VERSION.search(asked.query) if asked.front == X_FRONT_HANDED and asked.is_simple else None
        if version is None:
            return None
        found = notice.read_content(datetime.now(UTC)) if notice else None
        if found is None:
            found = await self._read_content(ticket.content_key)
        if found is None or not found.is_fresh(int(version[1])):
            return None
        if not is_picture(found.content_type):  # the policies of pages are main's
            return None
        return responses.picture_reply(found, ticket.redirect, datetime.now(UTC))

    async def _read_content(self, content_key: str) -> Content | None:
        """Reads content for a delivery. Returns None if there is none, or too many others are read."""
        if self._delivering >= MAX_DELIVERIES:
            return None
        self._delivering += 1
        try:
            [found] = await stores.run_all(self._clients, [contents.read_content(content_key)])
        finally:
            self._delivering -= 1
        return None if isinstance(found, Exception) else found

    async def _give_up(self, ticket: Ticket, asked: ClientRequest) -> ClientReply:
        """Answers a client whose waits, patience or own time limit are used up. The preparation goes on."""
        seconds = _expected_seconds(ticket)
        applied = headers.preference_text(ticket.respond_async, ticket.wait_seconds)
        if ticket.respond_async:
            return responses.accepted_reply(ticket, seconds, why="wait", preference=applied)
        if ticket.page is not None or prefers_page(asked.fetch_mode, asked.accept):
            _, waiting = await self._look(ticket)
            return html_pages.waiting_page_reply(ticket, waiting, seconds, preference=applied)
        detail = "The preparation takes longer than the limit for waiting. It continues: try again later."
        return problem_reply(503, detail, wait_seconds=seconds, preference=applied)


def admit_ticket(asked: ClientRequest) -> Ticket | ClientReply:
    """Returns the ticket, or the answer to a request without a valid ticket. Does not wait."""
    if reply := responses.other_method_reply(asked.method):
        return reply
    max_age_seconds = conf().RETRY_TICKET_SECONDS
    try:
        return read_ticket(asked.query, now=time.time(), max_age_seconds=max_age_seconds, hosts=_redirect_hosts())
    except TicketError as error:
        if error.redirect:
            return responses.redirect_reply(error.redirect, None, "old")
        return problem_reply(error.status, error.detail)


async def _run_forever(task: Callable[[], Coroutine[None, None, None]]) -> None:
    """Runs a task for the life of this process, and restarts it after every error."""
    while True:
        try:
            await task()
        except Exception:  # noqa: BLE001 - the edge of a background task: without it no client would be woken
            _log.exception("started again")
        await asyncio.sleep(RETRY_PAUSE_SECONDS)


def _most_seconds(ticket: Ticket) -> float:
    longest = conf().DEFAULT_RETRY_TIMEOUT
    return longest if ticket.page is None else min(longest, conf().PAGE_PATIENCE_SECONDS)


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
