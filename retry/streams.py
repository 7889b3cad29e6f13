"""Streams of server-sent events, which clients of the waiting instance keep open.

A source (RETRY_STREAMS) reads events after a place. Clients at one place share one reading, so a change costs one
look for each selection, however many clients wait; and those that come at once share the look at where they begin. The
events of a client that went away come with its next connection, by `Last-Event-ID`: nothing is kept for it here.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
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
PART_BYTES = 16_384
"""Events are sent in such parts: what is sent is copied for each client, until the client has read it."""
MAX_SENT_BYTES = 64_000_000
"""Long events that are being sent, each counted once: the slowest clients are dropped where there are more."""
MAX_READINGS = 2
"""Readings at once, so that streams take no more of the site than this. Clients begin by as many others."""
MAX_KEPT_BYTES = 8_000_000
"""Events that are kept for other clients at their places, until there is news."""
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
        self._beginnings: dict[tuple[bytes, str, str], asyncio.Task[str | ClientReply]] = {}
        self._readings: dict[str, asyncio.Task[EventPage]] = {}
        self._kept_bytes: dict[str, int] = {}
        self._sent: dict[asyncio.Task[None], bytes] = {}
        self._news = asyncio.Event()
        self._at_once = asyncio.Semaphore(MAX_READINGS)
        self._begun_at_once = asyncio.Semaphore(MAX_READINGS)
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
        for task in (*self._tasks, *self._readings.values(), *self._beginnings.values()):
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
            place = await asyncio.shield(self._begin(asked.query, last_id, asked.host))
            if isinstance(place, ClientReply):
                return place
            await self._stream(place, asked.method, receive, send)
        finally:
            self.count -= 1
        return None

    def _begin(self, query: bytes, last_id: str, host: str) -> "asyncio.Task[str | ClientReply]":
        """Looks where clients begin; once for those of the same query that come meanwhile, as all do after a reload."""
        asked = query, last_id, host
        if (task := self._beginnings.get(asked)) is None:
            task = self._beginnings[asked] = asyncio.create_task(self._begin_once(*asked))
        return task

    async def _begin_once(self, query: bytes, last_id: str, host: str) -> str | ClientReply:
        try:
            async with self._begun_at_once:
                return await self._source.begin(_single_values(query), last_id, host)
        finally:
            del self._beginnings[query, last_id, host]

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
            with self._held(page.text):
                await _send_text(send, page.text or b":\n\n")
            if not page.has_more:
                await news.wait()

    @contextmanager
    def _held(self, text: bytes) -> Iterator[None]:
        """Counts a long event while this task sends it, and drops clients that began before to make room."""
        if len(text) <= PART_BYTES or (sender := cast("asyncio.Task[None] | None", asyncio.current_task())) is None:
            yield
            return
        self._sent[sender] = text
        while sum({id(one): len(one) for one in self._sent.values()}.values()) > max(MAX_SENT_BYTES, len(text)):
            slowest = next(iter(self._sent))
            del self._sent[slowest]
            slowest.cancel()
        try:
            yield
        finally:
            self._sent.pop(sender, None)

    def _read(self, place: str) -> "asyncio.Task[EventPage]":
        if (reading := self._readings.get(place)) is None:
            reading = self._readings[place] = asyncio.create_task(self._read_once(place))
        return reading

    async def _read_once(self, place: str) -> EventPage:
        async with self._at_once:
            page = await self._source.read(place)
        if self._readings.get(place) is asyncio.current_task():
            self._keep_reading(place, len(page.text))
        return page

    def _keep_reading(self, place: str, size: int) -> None:
        """Keeps it for other clients, and drops the earliest ones where there are too many: a client may read years."""
        self._kept_bytes[place] = size
        while sum(self._kept_bytes.values()) > MAX_KEPT_BYTES:
            earliest = next(iter(self._kept_bytes))
            del self._kept_bytes[earliest], self._readings[earliest]

    async def _wake_forever(self) -> None:
        """Wakes the clients when there is news, and for each heartbeat."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):  # wait_for would lose a cancellation at that moment
                    await self._is_stale.wait()
            self._is_stale.clear()
            self._wake()
            await asyncio.sleep(1 / MAX_WOKEN_PER_SECOND)

    def _wake(self) -> None:
        self._readings, self._kept_bytes = {}, {}
        news, self._news = self._news, asyncio.Event()
        news.set()


def write_beginning(event_id: str) -> bytes:
    return f"retry: {RETRY_MILLISECONDS}\nid: {event_id}\n\n".encode()


def open_streams() -> dict[str, EventStream]:
    """Opens the streams of RETRY_STREAMS, by their paths."""
    return {path: EventStream(cast(EventSource, import_string(name))) for path, name in conf().RETRY_STREAMS.items()}


async def _send_text(send: Send, text: bytes, *, is_last: bool = False) -> None:
    """Raises TimeoutError for a client that does not read."""
    for at in range(0, max(len(text), 1), PART_BYTES):
        more = not is_last or at + PART_BYTES < len(text)
        async with asyncio.timeout(SEND_SECONDS):
            await send({"type": "http.response.body", "body": text[at : at + PART_BYTES], "more_body": more})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _single_values(query: bytes) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(query.decode("latin-1")).items()}
