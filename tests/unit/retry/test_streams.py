"""Streams of events: resumed by their places, shared readings, heartbeats, bounds, an end at a reload."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_django import Settings

from retry import stores, streams
from retry.responses import ClientReply, ClientRequest, problem_reply
from retry.streams import EndOfStreamError, EventPage, EventStream

pytestmark = pytest.mark.usefixtures("servers")
CHANNEL = "test:news"


@dataclass(slots=True)
class Numbers:
    """A source of numbers, two in an event; places are the last number. `reads` are those that were asked for.

    `begins` counts the looks at where clients begin.
    """

    channel: str = CHANNEL
    last: int = 0
    reads: list[str] = field(default_factory=list)
    begins: int = 0
    fails: bool = False

    async def begin(self, given: dict[str, str], last_id: str, host: str) -> str | ClientReply:
        self.begins += 1
        await asyncio.sleep(0)
        if given.get("from") == "nowhere":
            return problem_reply(404, "Nothing is there.")
        return last_id or given.get("from", str(self.last))

    def event_id(self, place: str) -> str:
        return place

    async def close(self) -> None:
        """Holds nothing."""

    async def read(self, place: str) -> EventPage:
        self.reads.append(place)
        if self.fails:
            raise EndOfStreamError
        at = min(int(place) + 2, self.last)
        text = "" if str(at) == place else f"id: {at}\ndata: {place}-{at}\n\n"
        return EventPage(text.encode(), str(at), has_more=at < self.last)


@dataclass(slots=True)
class Client:
    """A client, and what it was sent."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    reads: asyncio.Event = field(default_factory=asyncio.Event)

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def text(self) -> str:
        return b"".join(one.get("body", b"") for one in self.sent).decode()

    async def has(self, part: str) -> None:
        while part not in self.text:
            await asyncio.sleep(0.01)


Scene = Callable[[EventStream, Numbers], Coroutine[Any, Any, None]]


def played(scene: Scene) -> None:
    async def run() -> None:
        source = Numbers()
        stream = EventStream(source)
        try:
            async with asyncio.timeout(20):
                await scene(stream, source)
        finally:
            await stream.stop()
        assert stream.count == 0

    asyncio.run(run())


def opened(stream: EventStream, client: Client, query: bytes = b"", last_id: str = "") -> "asyncio.Task[Any]":
    return asyncio.create_task(stream.serve(ClientRequest("GET", query, "a"), last_id, client.receive, client.send))


def test_events_come_when_they_are_told_of_and_a_client_goes_on_where_it_was() -> None:
    async def scene(stream: EventStream, source: Numbers) -> None:
        client = Client()
        serving = opened(stream, client)
        await client.has("retry: 3000\nid: 0\n\n")
        source.last = 3
        stores.fast_client("state").publish(CHANNEL, 1)
        await client.has("id: 3\ndata: 2-3\n\n")
        client.left.set()
        assert await serving is None

        again = Client()
        serving = opened(stream, again, b"from=0", last_id="2")
        await again.has("data: 2-3")
        assert "data: 0-2" not in again.text
        again.left.set()
        await serving

    played(scene)


def test_clients_at_one_place_share_one_reading() -> None:
    async def scene(stream: EventStream, source: Numbers) -> None:
        clients = [Client() for _ in range(50)]
        serving = [opened(stream, client) for client in clients]
        for client in clients:
            await client.has("id: 0")
        await asyncio.sleep(0.6)  # the first news of a subscription
        source.reads.clear()
        source.last = 1
        stream._is_stale.set()
        for client in clients:
            await client.has("data: 0-1")
        assert source.reads == ["0"]
        for client in clients:
            client.left.set()
        await asyncio.gather(*serving)

    played(scene)


def test_clients_that_come_at_once_share_the_look_at_where_they_begin() -> None:
    async def scene(stream: EventStream, source: Numbers) -> None:
        clients = [Client() for _ in range(50)]
        serving = [opened(stream, client, last_id="7") for client in clients]
        serving.append(opened(stream, other := Client(), b"from=3"))
        for client in clients:
            await client.has("id: 7")
        await other.has("id: 3")
        assert source.begins == 2
        for client in (*clients, other):
            client.left.set()
        await asyncio.gather(*serving)

    played(scene)


def test_a_client_far_behind_leaves_few_readings_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_KEPT_BYTES", 100)

    async def scene(stream: EventStream, source: Numbers) -> None:
        await asyncio.sleep(0.6)  # the first news of a subscription
        source.last, client = 200, Client()
        serving = opened(stream, client, b"from=0")
        await client.has("data: 198-200")
        kept = [task.result().text for task in stream._readings.values()]
        assert 0 < sum(map(len, kept)) <= 100
        client.left.set()
        await serving

    played(scene)


def test_a_long_event_is_handed_over_as_fast_as_its_client_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PART_BYTES", 5)

    class Slow(Client):
        async def send(self, message: Any) -> None:
            self.sent.append(message)
            if b"data" in message.get("body", b""):
                await self.reads.wait()

    async def scene(stream: EventStream, source: Numbers) -> None:
        source.last, client = 1, Slow()
        serving = opened(stream, client, b"from=0")
        await client.has("id: 1\ndata")
        await asyncio.sleep(0.05)
        assert client.text.endswith("data")
        client.reads.set()
        await client.has("id: 1\ndata: 0-1\n\n")
        client.left.set()
        await serving
        assert max(len(one.get("body", b"")) for one in client.sent) == 5

    played(scene)


def test_the_slowest_clients_are_dropped_where_many_long_events_are_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PART_BYTES", 7)
    monkeypatch.setattr(streams, "MAX_SENT_BYTES", 50)

    class Stuck(Client):
        async def send(self, message: Any) -> None:
            self.sent.append(message)
            if b"data" in message.get("body", b""):
                await asyncio.Event().wait()

    async def scene(stream: EventStream, source: Numbers) -> None:
        source.last = 200
        stuck = [Stuck() for _ in range(6)]  # two at each place, with an event of 20 bytes
        serving = [opened(stream, client, f"from={10 + at // 2}".encode()) for at, client in enumerate(stuck)]
        for client in stuck[4:]:
            await client.has("data")
        for dropped in serving[:2]:
            assert await dropped is None
        assert not any(one.done() for one in serving[2:])
        serving.append(opened(stream, well := Client(), b"from=150"))
        await well.has("data: 198-200")
        well.left.set()
        for client in stuck:
            client.left.set()
        await asyncio.gather(*serving)

    played(scene)


def test_an_idle_client_gets_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HEARTBEAT_SECONDS", 0.05)

    async def scene(stream: EventStream, source: Numbers) -> None:
        client = Client()
        serving = opened(stream, client)
        await client.has(":\n\n:\n\n:\n\n")
        client.left.set()
        await serving

    played(scene)


def test_streams_end_at_a_reload_and_none_begins(settings: Settings) -> None:
    async def scene(stream: EventStream, source: Numbers) -> None:
        client = Client()
        serving = opened(stream, client)
        await client.has("id: 0")
        stream.close()
        assert await serving is None
        assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        refused = await opened(stream, Client())
        assert refused.status == 503

    played(scene)


def test_more_clients_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "conf", lambda: type("Conf", (), {"RETRY_MAX_STREAMS": 1}))

    async def scene(stream: EventStream, source: Numbers) -> None:
        client = Client()
        serving = opened(stream, client)
        await client.has("id: 0")
        refused = await opened(stream, Client())
        assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
        client.left.set()
        await serving

    played(scene)


def test_a_client_that_does_not_read_is_dropped_and_holds_no_other_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SEND_SECONDS", 0.2)

    class Stuck(Client):
        async def send(self, message: Any) -> None:
            if b"data" in message.get("body", b""):
                await asyncio.Event().wait()
            self.sent.append(message)

    async def scene(stream: EventStream, source: Numbers) -> None:
        stuck, well = Stuck(), Client()
        both = [opened(stream, client) for client in (stuck, well)]
        for client in (stuck, well):
            await client.has("id: 0")
        source.last = 1
        stream._is_stale.set()
        await well.has("data: 0-1")
        assert await both[0] is None
        well.left.set()
        await both[1]

    played(scene)


def test_a_stream_that_cannot_be_read_ends() -> None:
    async def scene(stream: EventStream, source: Numbers) -> None:
        source.fails = True
        client = Client()
        assert await opened(stream, client) is None
        assert client.sent[-1]["more_body"] is False

    played(scene)


def test_refusals_are_answered_without_a_stream() -> None:
    async def scene(stream: EventStream, source: Numbers) -> None:
        for query in (b"from=nowhere", b"from=nowhere" + b"&other=1" * 30):
            refused = await opened(stream, Client(), query)
            assert refused.status == 404
        assert (await stream.serve(ClientRequest("POST", b"", "a"), "", Client().receive, Client().send)).status == 405  # type: ignore[union-attr]

    played(scene)
