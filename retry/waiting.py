"""Waiting: a room for each content that somebody waits for, emptied when its work ends.

A client waits by listening for its own disconnection under a deadline; a wake-up is that deadline
brought forward. Whoever enters a room that is there already needs no look of his own: the room was
opened while the subscription stood, and the end of the work empties it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

from . import claims, connections, observing, standings
from .conf import conf
from .front import Front
from .looking import Found, look
from .rooms import Client, Outcome, Room
from .tickets import Ticket

UNKNOWN_SECONDS = 1.0
"""A client of whose work nothing is known is not sent back sooner than this."""

OUTAGE_SECONDS = 5.0
"""Clients of claimed work stay for this long after Redis was lost, whatever the clock says: it may come back."""

RETURNS_PER_SECOND = 1000
"""How fast clients are sent back to main when there is nothing for them there that the front could answer."""

CROWD = 8
"""From this many clients of one address on, the front is filled before they are released."""

CHUNK, CHUNK_SECONDS = 200, 0.1
"""How a crowd is released that the front cannot answer by itself."""

MOST_LOOKS_AT_ONCE = 500

Receive = Callable[[], Awaitable[object]]


class Waiting:
    """All waiting clients of this process. Does not speak HTTP."""

    def __init__(self, front: Front | None) -> None:
        self.closing = False
        self.count = 0
        self._rooms: dict[str, dict[str, Room]] = {}
        self._to_look: asyncio.Queue[Room] = asyncio.Queue()
        self._front = front
        self._releases: set[asyncio.Task[None]] = set()

    async def wait(self, ticket: Ticket, host: str, receive: Receive, seconds: float) -> Outcome:
        """Waits until there is an answer, the time is up, the process closes or the client has gone."""
        now = asyncio.get_running_loop().time()
        client = Client(host, ticket, now, now + seconds, asyncio.timeout_at(now + seconds))
        room = self._enter(client)
        try:
            async with client.deadline:
                await _until_gone(receive)
                client.outcome = Outcome.GONE
        except TimeoutError:
            pass  # the outcome was set when the deadline was
        finally:
            self._leave(room, client)
        return client.outcome

    def finished(self, work_key: str, outcome: str) -> None:
        """The work has ended: everyone who waits for a content of it goes back."""
        for room in list(self._rooms.get(work_key, {}).values()):
            if outcome == "abandoned":
                self._ask(room)
            else:
                self._release_soon(room, fill=outcome == "stored")

    def look_again(self) -> None:
        """Looks at all that is waited for: after a new subscription, and now and then."""
        for rooms in self._rooms.values():
            for room in rooms.values():
                self._ask(room)

    async def look_forever(self) -> None:
        """Looks at rooms as they are asked about, many in one round trip."""
        clients: connections.Clients = {
            "state": connections.async_client("state"),
            "cache": connections.async_client("cache"),
        }
        try:
            while True:
                rooms = [await self._to_look.get()]
                while len(rooms) < MOST_LOOKS_AT_ONCE and not self._to_look.empty():
                    rooms.append(self._to_look.get_nowait())
                await self._look_at(rooms, clients)
        finally:
            for client in clients.values():
                await client.aclose()

    def close(self) -> None:
        """Everyone is answered at once; who comes now, too."""
        self.closing = True
        for rooms in self._rooms.values():
            for room in rooms.values():
                for client in room.clients:
                    client.release(Outcome.CLOSING)

    def _enter(self, client: Client) -> Room:
        ticket = client.ticket
        rooms = self._rooms.setdefault(ticket.work_key, {})
        room = rooms.get(ticket.content_key)
        if room is None:
            room = rooms[ticket.content_key] = Room(ticket.work_key, ticket.content_key)
        room.clients.add(client)
        if not room.settled:
            self._ask(room)
        self.count += 1
        observing.waiting(+1)
        return room

    def _leave(self, room: Room, client: Client) -> None:
        client.leaving = True
        self.count -= 1
        observing.waiting(-1)
        room.clients.discard(client)
        if not room.clients:
            self._forget(room)

    def _forget(self, room: Room) -> None:
        rooms = self._rooms.get(room.work_key, {})
        if rooms.get(room.content_key) is room:
            del rooms[room.content_key]
            if not rooms:
                del self._rooms[room.work_key]

    def _ask(self, room: Room) -> None:
        if not room.asked:
            room.asked = True
            self._to_look.put_nowait(room)

    async def _look_at(self, rooms: list[Room], clients: connections.Clients) -> None:
        for room in rooms:
            room.asked = False  # who enters from here on is looked at again
        steps = [look(claims.looking(room.work_key), room.content_key, with_body=False) for room in rooms]
        for room, found in zip(rooms, await connections.run_all(clients, steps), strict=True):
            self._settle(room, found)

    def _settle(self, room: Room, found: Found | Exception) -> None:
        if not isinstance(found, Exception):
            room.lost_at = None
        match found:
            case Exception():
                self._send_by_the_clock(room)
            case Found(content=content) if content is not None:
                self._release_soon(room, fill=True)
            case Found(standing=standings.Failed() | standings.Done()):
                self._release_soon(room, fill=False)
            case Found(standing=standings.Claimed()):
                if not room.settled:
                    room.settled = True
                    for client in room.clients:
                        client.end_at(client.until, Outcome.TIME_UP)
            case _:
                room.settled = False
                for client in room.clients:
                    self._send_back_after(client, client.arrived + UNKNOWN_SECONDS)

    def _send_by_the_clock(self, room: Room) -> None:
        """Redis cannot be reached: clients go when content was expected, unless a later look knows better."""
        if room.lost_at is None:
            grace = OUTAGE_SECONDS if room.settled else 0
            room.lost_at = asyncio.get_running_loop().time() + grace
            room.settled = False
        for client in room.clients:
            self._send_back_after(client, max(room.lost_at, _expected_at(client)))

    def _send_back_after(self, client: Client, moment: float) -> None:
        """Sets the client's end, once: spread, so that main does not meet all who wait at the same time."""
        if client.outcome is not Outcome.READY:
            spread = random.random() * self.count / RETURNS_PER_SECOND
            client.end_at(min(client.until, moment + spread), Outcome.READY)

    def _release_soon(self, room: Room, *, fill: bool) -> None:
        self._forget(room)  # who comes from here on opens a room, and looks, anew
        task = asyncio.create_task(self._release(room, fill=fill))
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)

    async def _release(self, room: Room, *, fill: bool) -> None:
        crowds: dict[tuple[str, str], list[Client]] = {}
        for client in room.clients:
            crowds.setdefault((client.host, client.ticket.redirect), []).append(client)
        try:
            await asyncio.gather(*(self._release_crowd(*crowd, fill=fill) for crowd in crowds.items()))
        finally:  # whatever befalls the front
            for client in room.clients:
                client.release(Outcome.READY)

    async def _release_crowd(self, address: tuple[str, str], clients: list[Client], *, fill: bool) -> None:
        large = len(clients) >= CROWD
        if large and not (fill and self._front is not None and await self._front.fill(*address)):
            await _release_slowly(clients)
        for client in clients:
            client.release(Outcome.READY)


async def _release_slowly(clients: list[Client]) -> None:
    for start in range(0, len(clients), CHUNK):
        for client in clients[start : start + CHUNK]:
            client.release(Outcome.READY)
        await asyncio.sleep(CHUNK_SECONDS)


def _expected_at(client: Client) -> float:
    """When the content is expected, in the loop's time: a second after the client's arrival at the soonest."""
    left = min(client.ticket.retry_after - time.time(), conf().DEFAULT_RETRY_TIMEOUT)
    return max(client.arrived + UNKNOWN_SECONDS, asyncio.get_running_loop().time() + left)


async def _until_gone(receive: Receive) -> None:
    while True:
        message = await receive()
        if isinstance(message, dict) and message.get("type") == "http.disconnect":
            return
