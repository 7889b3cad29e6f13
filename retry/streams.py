"""Streams of server-sent events, which clients of the waiting instance keep open.

A source (RETRY_STREAMS) reads events after a place. Clients at one place share one reading, so a change costs one
look for each selection, however many clients wait. The events of a client that went away
come with its next connection, by `Last-Event-ID`: nothing is kept for it here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import parse_qs

from django.utils.module_loading import import_string

from . import responses
from .conf import conf
from .responses import ClientReply, ClientRequest, problem_reply
from .subscription import listen_forever

HEARTBEAT_SECONDS = 15.0
SEND_SECONDS = 30.0
"""The longest time for which a client may leave sent bytes unread."""
MAX_READINGS = 2
"""Readings at once, so that streams take no more of the site than this."""
RETRY_MILLISECONDS = 3000
MAX_WOKEN_PER_SECOND = 2
"""A busy site wakes its clients so often: what came meanwhile comes together."""
EVENT_FIELDS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "access-control-allow-origin": "*",
    "x-accel-buffering": "no",
    "x-content-type-options": "nosniff",
}

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger("tarry.waiting")


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events after a place, as text of the stream; and the place after them. Without `has_more` there are no others."""

    text: bytes
    place: str
    has_more: bool


class EventSource(Protocol):
    """Reads events. `channel` of `state` tells of new ones. A place is known to the source alone."""

    channel: str

    async def begin(self, given: dict[str, str], last_id: str, host: str) -> str | ClientReply:
        """Returns the place from which a client of these parameters reads on, or the refusal."""

    async def read(self, place: str) -> EventPage:
        """Raises EndOfStreamError if there is nothing to read on from."""

    def event_id(self, place: str) -> str:
        """Returns the `Last-Event-ID` of the place."""

    async def close(self) -> None: ...


class EndOfStreamError(Exception):
    """The stream ends. Its client may come again."""


class EventStream:
    """The clients of one source. Must be created within the serving event loop."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._readings: dict[str, asyncio.Task[EventPage]] = {}
        self._news = asyncio.Event()
        self._at_once = asyncio.Semaphore(MAX_READINGS)
        self._is_stale = asyncio.Event()
        self.count = 0
        self.closing = False
        self._tasks = [
            asyncio.create_task(listen_forever(source.channel, lambda _: self._is_stale.set())),
            asyncio.create_task(self._wake_forever()),
        ]

    def close(self) -> None:
        """Ends all streams, and admits no other: the clients come again, to this instance's successor."""
        self.closing = True
        self._wake()

    async def stop(self) -> None:
        for task in (*self._tasks, *self._readings.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._source.close()

    async def serve(self, asked: ClientRequest, last_id: str, receive: Receive, send: Send) -> ClientReply | None:
        """Serves a client until it leaves, or the stream ends. Returns the refusal if there is one."""
        if refusal := responses.other_method_reply(asked.method):
            return refusal
        if self.closing or self.count >= conf().RETRY_MAX_STREAMS:
            return problem_reply(503, "Too many streams are open here.", wait_seconds=5)
        self.count += 1
        try:
            place = await self._source.begin(_single_values(asked.query), last_id, asked.host)
            if isinstance(place, ClientReply):
                return place
            await self._stream(place, asked.method, receive, send)
        finally:
            self.count -= 1
        return None

    async def _stream(self, place: str, method: str, receive: Receive, send: Send) -> None:
        fields = [(name.encode(), value.encode()) for name, value in EVENT_FIELDS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        if method != "HEAD":
            # Its place comes first, so that a client that loses the connection before an event misses nothing.
            await _send_text(send, write_beginning(self._source.event_id(place)))
            events = asyncio.create_task(self._send_events(place, send))
            gone = asyncio.create_task(_until_gone(receive))
            await asyncio.wait((events, gone), return_when=asyncio.FIRST_COMPLETED)
            for task in (events, gone):
                task.cancel()
            [ended, _] = await asyncio.gather(events, gone, return_exceptions=True)
            if isinstance(ended, Exception) and not isinstance(ended, OSError):  # a TimeoutError is one
                _log.error("a stream ended", exc_info=ended)
        with suppress(OSError, TimeoutError):
            await _send_text(send, b"", is_last=True)

    async def _send_events(self, place: str, send: Send) -> None:
        """Sends events, and heartbeats where there are none, until the stream ends."""
        while not self.closing:
            news = self._news
            try:
                page = await asyncio.shield(self._read(place))
            except EndOfStreamError:
                return
            place = page.place
            await _send_text(send, page.text or b":\n\n")
            if not page.has_more:
                await news.wait()

    def _read(self, place: str) -> "asyncio.Task[EventPage]":
        if (reading := self._readings.get(place)) is None:
            reading = self._readings[place] = asyncio.create_task(self._read_once(place))
        return reading

    async def _read_once(self, place: str) -> EventPage:
        async with self._at_once:
            return await self._source.read(place)

    async def _wake_forever(self) -> None:
        """Wakes the clients when there is news, and for each heartbeat."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_stale.wait(), HEARTBEAT_SECONDS)
            self._is_stale.clear()
            self._wake()
            await asyncio.sleep(1 / MAX_WOKEN_PER_SECOND)

    def _wake(self) -> None:
        self._readings = {}
        news, self._news = self._news, asyncio.Event()
        news.set()


def write_beginning(event_id: str) -> bytes:
    return f"retry: {RETRY_MILLISECONDS}\nid: {event_id}\n\n".encode()


def open_streams() -> dict[str, EventStream]:
    """Opens the streams of RETRY_STREAMS, by their paths."""
    return {path: EventStream(cast(EventSource, import_string(name))) for path, name in conf().RETRY_STREAMS.items()}


async def _send_text(send: Send, text: bytes, *, is_last: bool = False) -> None:
    """Raises TimeoutError for a client that does not read."""
    async with asyncio.timeout(SEND_SECONDS):
        await send({"type": "http.response.body", "body": text, "more_body": not is_last})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _single_values(query: bytes) -> dict[str, str]:
    try:
        return {name: values[-1] for name, values in parse_qs(query.decode("latin-1"), max_num_fields=20).items()}
    except ValueError:
        return {}
