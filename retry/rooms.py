"""Rooms: the waiting clients of each content, released when its work ends. Does not speak HTTP to them.

A client waits for its own disconnection under a deadline; a wake-up is that deadline brought forward. A client
that enters an existing room needs no look of its own: the room was opened while the subscription stood, and the
end of the work empties it. Before a crowd is released, the front (nginx) is asked once for the content, so that
its hot cache has it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from . import claim_state, claims, metrics, stores
from .conf import conf
from .contents import StoredNotice
from .decision import LookResult, look_up_content
from .tickets import Ticket


class WaitOutcome(Enum):
    READY = "ready"  # go back: there is an answer
    TIME_UP = "time_up"
    CLOSING = "closing"  # this process is shutting down
    GONE = "gone"  # the client has left


@dataclass(slots=True, eq=False)
class WaitingClient:
    """One waiting client. `until` is its own limit, `earliest` that of its way back, in the loop's time.

    `notice` is that of its content, if this was stored while it waited.
    """

    host: str
    ticket: Ticket
    arrived: float
    until: float
    earliest: float
    deadline: asyncio.Timeout
    outcome: WaitOutcome = WaitOutcome.TIME_UP
    leaving: bool = False
    notice: StoredNotice | None = None

    def release(self, outcome: WaitOutcome) -> None:
        self.end_at(0, outcome)
        self.leaving = True

    def end_at(self, moment: float, outcome: WaitOutcome) -> None:
        """Sets the client's outcome and its moment. Does nothing for a client that is leaving already."""
        if outcome is WaitOutcome.READY:
            moment = max(moment, self.earliest)
        if not self.leaving and not self.deadline.expired():
            self.outcome = outcome
            self.deadline.reschedule(moment)


@dataclass(slots=True, eq=False)
class Room:
    """The waiting clients of one content. `settled` while the last look found its work claimed."""

    work_key: str
    content_key: str
    clients: set[WaitingClient] = field(default_factory=set)
    settled: bool = False
    asked: bool = False
    lost_at: float | None = None  # since when Redis could not be reached, in the loop's time


FILL_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS = 1.0, 10.0


class FrontClient:
    """A client of our own proxy, at `base`: an http URL, or `unix:` and the path of a socket."""

    def __init__(self, base: str) -> None:
        self._base = "http://front" if base.startswith("unix:") else base.rstrip("/")
        connector = aiohttp.UnixConnector(base.removeprefix("unix:")) if base.startswith("unix:") else None
        timeout = aiohttp.ClientTimeout(total=FILL_TIMEOUT_SECONDS)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)

    async def fill(self, host: str, address: str) -> bool:
        """Requests the address as a client of that host would. Returns True if the proxy can answer it alone now."""
        parts = urlsplit(address)
        path = parts._replace(scheme="", netloc="").geturl()
        url = URL(f"{self._base}{path}", encoded=True)
        headers = {"Host": parts.netloc or host, "Accept-Encoding": "identity"}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                await response.read()
                return response.status == 200 and "no-store" not in response.headers.get("Cache-Control", "no-store")
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def read(self, host: str, path: str) -> tuple[int, bytes]:
        """Requests a path as a client of that host would. Returns status and body; 503 if there is no answer."""
        url, limit = URL(f"{self._base}{path}", encoded=True), aiohttp.ClientTimeout(total=READ_TIMEOUT_SECONDS)
        headers = {"Host": host, "Accept-Encoding": "identity"}
        try:
            async with self._session.get(url, headers=headers, allow_redirects=False, timeout=limit) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError):
            return 503, b""

    async def close(self) -> None:
        await self._session.close()


UNKNOWN_WAIT_SECONDS = 1.0
"""A client of unknown work is not sent back sooner than this."""

OUTAGE_GRACE_SECONDS = 5.0
"""Clients of claimed work stay for this long after Redis was lost, even past the expected time: it may come back."""

RETURNS_PER_SECOND = 1000
"""The rate at which clients return to main for answers that the front cannot give."""

CROWD_CLIENTS = 8
"""The number of clients of one address from which on the front is filled before their release."""

CHUNK_CLIENTS, CHUNK_SECONDS = 200, 0.1
"""A crowd that the front cannot answer by itself is released in chunks of clients, one in so many seconds."""

MAX_LOOKS_AT_ONCE = 500

Receive = Callable[[], Awaitable[object]]


class ContentWatch(Protocol):
    """Passes on the notices of the contents of rooms. Several rooms may wait for one content."""

    def add(self, content_key: str) -> None: ...

    def discard(self, content_key: str) -> None: ...


class WaitingClients:
    def __init__(self, front: FrontClient | None, watch: ContentWatch | None = None) -> None:
        self.closing = False
        self.count = 0
        self._rooms: dict[str, dict[str, Room]] = {}
        self._to_look: asyncio.Queue[Room] = asyncio.Queue()
        self._front = front
        self._watch = watch
        self._releases: set[asyncio.Task[None]] = set()

    async def wait(self, ticket: Ticket, host: str, receive: Receive, seconds: float) -> WaitingClient:
        """Waits until there is an answer, the time is up, the process closes or the client leaves.

        Returns the client with the outcome.
        """
        now = asyncio.get_running_loop().time()
        until, deadline = now + seconds, asyncio.timeout_at(now + seconds)
        earliest = now if ticket.earliest is None else min(now + ticket.earliest - time.time(), until)
        client = WaitingClient(host, ticket, now, until, earliest, deadline)
        room = self._enter(client)
        try:
            async with client.deadline:
                await _until_gone(receive)
                client.outcome = WaitOutcome.GONE
        except TimeoutError:
            pass  # the outcome was set when the deadline was
        finally:
            self._leave(room, client)
        return client

    def stored(self, notice: StoredNotice) -> None:
        """Sends the clients of stored content back. Its work ends a moment later."""
        room = self._rooms.get(notice.work_key, {}).get(notice.content_key)
        if room is None:
            return
        if len(room.clients) < CROWD_CLIENTS:
            for client in room.clients:
                client.notice = notice
        self._release_soon(room, fill=True)

    def finished(self, work_key: str, outcome: str) -> None:
        """Sends the clients of ended work back. After an abandoned claim, looks again."""
        for room in list(self._rooms.get(work_key, {}).values()):
            if outcome == "abandoned":
                self._ask(room)
            else:
                self._release_soon(room, fill=outcome == "stored")

    def look_again(self) -> None:
        """Looks at all rooms: after a new subscription, and at intervals."""
        for rooms in self._rooms.values():
            for room in rooms.values():
                self._ask(room)

    async def look_forever(self) -> None:
        """Looks at the rooms in the queue, many in one round trip. Does not return."""
        clients = stores.async_clients()
        try:
            while True:
                rooms = [await self._to_look.get()]
                while len(rooms) < MAX_LOOKS_AT_ONCE and not self._to_look.empty():
                    rooms.append(self._to_look.get_nowait())
                await self._look_at(rooms, clients)
        finally:
            for client in clients.values():
                await client.aclose()

    def close(self) -> None:
        """Answers all clients at once, and later ones too."""
        self.closing = True
        for rooms in self._rooms.values():
            for room in rooms.values():
                for client in room.clients:
                    client.release(WaitOutcome.CLOSING)

    def _enter(self, client: WaitingClient) -> Room:
        ticket = client.ticket
        rooms = self._rooms.setdefault(ticket.work_key, {})
        room = rooms.get(ticket.content_key)
        if room is None:
            room = rooms[ticket.content_key] = Room(ticket.work_key, ticket.content_key)
            if self._watch is not None:
                self._watch.add(room.content_key)
        room.clients.add(client)
        if not room.settled:
            self._ask(room)
        self.count += 1
        metrics.count_waiting_clients(+1)
        return room

    def _leave(self, room: Room, client: WaitingClient) -> None:
        client.leaving = True
        self.count -= 1
        metrics.count_waiting_clients(-1)
        room.clients.discard(client)
        if not room.clients:
            self._forget(room)

    def _forget(self, room: Room) -> None:
        rooms = self._rooms.get(room.work_key, {})
        if rooms.get(room.content_key) is room:
            del rooms[room.content_key]
            if self._watch is not None:
                self._watch.discard(room.content_key)
            if not rooms:
                del self._rooms[room.work_key]

    def _ask(self, room: Room) -> None:
        if not room.asked:
            room.asked = True
            self._to_look.put_nowait(room)

    async def _look_at(self, rooms: list[Room], clients: stores.AsyncClients) -> None:
        for room in rooms:
            room.asked = False  # a client that enters from here on causes another look
        steps = [look_up_content(claims.look_call(room.work_key), room.content_key, with_body=False) for room in rooms]
        for room, found in zip(rooms, await stores.run_all(clients, steps), strict=True):
            self._settle(room, found)

    def _settle(self, room: Room, found: LookResult | Exception) -> None:
        if not isinstance(found, Exception):
            room.lost_at = None
        match found:
            case Exception():
                self._send_by_the_clock(room)
            case LookResult(content=content) if content is not None:
                self._release_soon(room, fill=True)
            case LookResult(state=claim_state.WorkFailed()):
                self._release_soon(room, fill=False)
            case LookResult(state=claim_state.ClaimTaken()):
                self._keep(room, settled=True)
            case LookResult(cache_is_away=True):  # main cannot answer either
                self._keep(room, settled=False)
            case LookResult(state=claim_state.WorkDone(claim_state.LOST, seconds)):
                self._send_back_in(room, seconds)
            case LookResult(state=claim_state.WorkDone()):
                self._release_soon(room, fill=False)
            case _:
                room.settled = False
                for client in room.clients:
                    self._send_back_after(client, client.arrived + UNKNOWN_WAIT_SECONDS)

    def _keep(self, room: Room, *, settled: bool) -> None:
        """Lets the clients of a room wait on, for as long as they may."""
        if not room.settled:
            for client in room.clients:
                client.end_at(client.until, WaitOutcome.TIME_UP)
        room.settled = settled

    def _send_back_in(self, room: Room, seconds: float) -> None:
        moment = asyncio.get_running_loop().time() + seconds
        room.settled = False
        for client in room.clients:
            self._send_back_after(client, moment)

    def _send_by_the_clock(self, room: Room) -> None:
        """Sends clients back at the expected time while Redis is away, unless a later look knows better."""
        if room.lost_at is None:
            grace = OUTAGE_GRACE_SECONDS if room.settled else 0
            room.lost_at = asyncio.get_running_loop().time() + grace
            room.settled = False
        for client in room.clients:
            self._send_back_after(client, max(room.lost_at, _expected_at(client)))

    def _send_back_after(self, client: WaitingClient, moment: float) -> None:
        """Sets the client's end, once. The ends are spread, so that main does not meet all clients at once."""
        if client.outcome is not WaitOutcome.READY:
            spread = random.random() * self.count / RETURNS_PER_SECOND
            client.end_at(min(client.until, moment + spread), WaitOutcome.READY)

    def _release_soon(self, room: Room, *, fill: bool) -> None:
        """Sends the clients back, those first that may go back now. The others stay in the room until then."""
        now = asyncio.get_running_loop().time()
        ready = [client for client in room.clients if client.earliest <= now]
        room.settled = False  # a client that comes from here on looks anew
        if len(ready) == len(room.clients):
            self._forget(room)
        for client in room.clients:
            if client.earliest > now:
                client.end_at(now, WaitOutcome.READY)
        if len(ready) < CROWD_CLIENTS:
            for client in ready:
                client.release(WaitOutcome.READY)
            return
        task = asyncio.create_task(self._release(ready, fill=fill))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def _release(self, released: list[WaitingClient], *, fill: bool) -> None:
        crowds: dict[tuple[str, str], list[WaitingClient]] = {}
        for client in released:
            crowds.setdefault((client.host, client.ticket.redirect), []).append(client)
        try:
            await asyncio.gather(*(self._release_crowd(*crowd, fill=fill) for crowd in crowds.items()))
        finally:  # also if the front fails
            for client in released:
                client.release(WaitOutcome.READY)

    async def _release_crowd(self, address: tuple[str, str], clients: list[WaitingClient], *, fill: bool) -> None:
        large = len(clients) >= CROWD_CLIENTS
        if large and not (fill and self._front is not None and await self._front.fill(*address)):
            await _release_slowly(clients)
        for client in clients:
            client.release(WaitOutcome.READY)


async def _release_slowly(clients: list[WaitingClient]) -> None:
    for start in range(0, len(clients), CHUNK_CLIENTS):
        for client in clients[start : start + CHUNK_CLIENTS]:
            client.release(WaitOutcome.READY)
        await asyncio.sleep(CHUNK_SECONDS)


def _expected_at(client: WaitingClient) -> float:
    """The expected time of the content, in the loop's time: a second after the client's arrival at the soonest."""
    left = min(client.ticket.retry_after - time.time(), conf().DEFAULT_RETRY_TIMEOUT)
    return max(client.arrived + UNKNOWN_WAIT_SECONDS, asyncio.get_running_loop().time() + left)


async def _until_gone(receive: Receive) -> None:
    while True:
        message = await receive()
        if isinstance(message, dict) and message.get("type") == "http.disconnect":
            return
