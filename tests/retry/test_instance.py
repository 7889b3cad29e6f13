"""The waiting instance: who is sent back when, and that nobody is forgotten."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from pytest_django import Settings

from retry import claims, connections, contents, standings, subscribing, waiting
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.instance import Instance
from retry.preparing import prepare
from retry.replies import Reply, Request
from retry.tickets import Ticket, read_ticket, ticket_address
from retry.waiting import Waiting
from retry.work import Work
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")
KEY = "tile:a:1"
BACK = "/tiles/a.png"


def begin(work: Work) -> int:
    found = standings.standing(connections.execute(claims.beginning(work, refresh=False)))
    assert isinstance(found, standings.Begun)
    return found.token


def asked(
    work: Work, *, hop: int = 1, expected_in: float = 1, key: str = KEY, wait: float | None = None, **fields: Any
) -> Request:
    now = time.time()
    deadline = None if wait is None else int(now) + wait
    respond_async = fields.pop("respond_async", False)
    ticket = Ticket(BACK, now + expected_in, key, work.key, int(now), hop, deadline, respond_async)
    return Request("GET", urlsplit(ticket_address(ticket, "/retry_after")).query.encode(), "testserver", **fields)


async def present() -> object:
    return await asyncio.Event().wait()


Scene = Callable[[Instance], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    """Runs a scene with a waiting instance that is open."""

    async def run() -> None:
        instance = Instance()
        try:
            async with asyncio.timeout(15):
                await scene(instance)
        finally:
            await instance.close()
        assert instance.waiting.count == 0
        assert not instance.waiting._rooms

    asyncio.run(run())


async def settled(instance: Instance, work: Work, key: str = KEY) -> None:
    """Returns when a look has found the work claimed."""
    while not (room := instance.waiting._rooms.get(work.key, {}).get(key)) or not room.settled:
        await asyncio.sleep(0.005)


def is_back(reply: Reply | None) -> bool:
    return reply is not None and reply.status == 302 and reply.headers["Location"] == BACK


def test_a_client_is_sent_back_when_the_work_ends(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        token = begin(work)
        waiting = asyncio.create_task(instance.answer(asked(work), present))
        await settled(instance, work)
        await asyncio.to_thread(prepare, work.key, token, lambda: {KEY: Prepared(b"x", "image/png", 60, 60)})
        reply = await asyncio.wait_for(waiting, 1)
        assert is_back(reply)
        assert reply is not None
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["Access-Control-Allow-Origin"] == "*"

    play(scene)


def test_every_client_of_every_content_of_the_work_is_sent_back(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        token = begin(work)
        waiting = [asyncio.create_task(instance.answer(asked(work, key=f"k{n % 5}"), present)) for n in range(100)]
        for number in range(5):
            await settled(instance, work, f"k{number}")
        connections.execute(claims.starting(work.key, token, "nonce"))
        connections.execute(claims.finishing_stored(work.key, token, 0.1))
        assert all(is_back(reply) for reply in await asyncio.gather(*waiting))

    play(scene)


def test_content_that_is_there_already_is_not_waited_for(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        content = Prepared(b"x", "image/png", 0, 60)
        connections.execute(contents.writing(KEY, content, 1, datetime.now(UTC), 0.1))
        assert is_back(await asyncio.wait_for(instance.answer(asked(work), present), 0.9))

    play(scene)


def test_a_failure_sends_the_client_back_to_hear_of_it(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        call = claims.finishing_failed(work.key, begin(work), PreparationError("No.", status=502), luck=0.9)
        connections.execute(call)
        assert is_back(await asyncio.wait_for(instance.answer(asked(work), present), 0.9))

    play(scene)


def test_a_done_mark_sends_the_client_back(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        connections.execute(claims.finishing_stored(work.key, begin(work), 0.1))
        assert is_back(await asyncio.wait_for(instance.answer(asked(work), present), 0.9))

    play(scene)


def test_who_comes_after_the_end_is_looked_for_at_once(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waiting, "look_again", lambda _: None)  # neither now and then nor after a subscription

    async def scene(instance: Instance) -> None:
        connections.execute(claims.finishing_stored(work.key, begin(work), 0.1))
        assert is_back(await asyncio.wait_for(instance.answer(asked(work), present), 0.5))

    play(scene)


def test_a_client_of_whom_nothing_is_known_waits_a_second(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        began = time.monotonic()
        assert is_back(await instance.answer(asked(work), present))
        assert time.monotonic() - began >= 0.99

    play(scene)


def test_when_the_time_is_up_the_client_comes_again_with_the_next_hop(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work), present)
        assert reply is not None
        assert reply.status == 302
        target = urlsplit(reply.headers["Location"])
        assert target.path == "/retry_after"
        ticket = read_ticket(target.query, now=time.time(), max_age_seconds=600, hosts=frozenset())
        assert (ticket.hop, ticket.redirect, ticket.work_key) == (2, BACK, work.key)

    play(scene)


def test_the_last_hop_ends_in_503_while_the_work_goes_on(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, hop=2), present)
        assert reply is not None
        assert reply.status == 503
        assert int(reply.headers["Retry-After"]) >= 1
        assert reply.headers["Cache-Control"] == "no-store"
        assert json.loads(reply.body)["status"] == 503
        assert isinstance(standings.standing(connections.execute(claims.looking(work.key))), standings.Claimed)

    play(scene)


def test_a_navigation_that_waited_in_vain_gets_the_waiting_page(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.1

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, hop=2, fetch_mode="navigate"), present)
        assert reply is not None
        assert reply.status == 503
        assert BACK.encode() in reply.body

    play(scene)


def test_a_hop_past_the_budget_does_not_wait(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await asyncio.wait_for(instance.answer(asked(work, hop=3), present), 0.5)
        assert reply is not None
        assert reply.status == 503

    play(scene)


def test_a_client_that_leaves_is_released_at_once(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        leaving = asyncio.Event()

        async def receive() -> object:
            await leaving.wait()
            return {"type": "http.disconnect"}

        waiting = asyncio.create_task(instance.answer(asked(work), receive))
        await settled(instance, work)
        leaving.set()
        assert await asyncio.wait_for(waiting, 0.5) is None
        assert instance.waiting.count == 0

    play(scene)


def test_closing_answers_everyone_with_the_same_ticket(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        waiting = [asyncio.create_task(instance.answer(asked(work), present)) for _ in range(20)]
        await settled(instance, work)
        instance.waiting.close()
        for reply in await asyncio.wait_for(asyncio.gather(*waiting), 1):
            assert reply is not None
            assert reply.status == 302
            assert dict(parse_qsl(urlsplit(reply.headers["Location"]).query))["hop"] == "1"
        late = await asyncio.wait_for(instance.answer(asked(work), present), 0.5)
        assert late is not None
        assert late.status == 302

    play(scene)


def test_without_redis_the_clock_is_enough(work: Work, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"

    async def scene(instance: Instance) -> None:
        began = time.monotonic()
        assert is_back(await instance.answer(asked(work, expected_in=1.5), present))
        assert 1.2 < time.monotonic() - began < 4

    play(scene)


def test_who_waited_before_an_outage_stays_for_its_grace_whatever_the_clock_says(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "UNKNOWN_SECONDS", 0)
    monkeypatch.setattr(waiting, "OUTAGE_SECONDS", 0.5)
    monkeypatch.setattr(subscribing, "LOOK_AGAIN_SECONDS", 0.05)

    async def scene(instance: Instance) -> None:
        begin(work)
        client = asyncio.create_task(instance.answer(asked(work, expected_in=0), present))
        await settled(instance, work)
        began = time.monotonic()
        servers.state.stop()
        assert is_back(await client)
        assert time.monotonic() - began >= 0.5

    play(scene)


def test_a_claim_that_is_lost_while_clients_wait_sends_them_back(work: Work, servers: RedisServers) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        waiting = asyncio.create_task(instance.answer(asked(work), present))
        await settled(instance, work)
        servers.state.client.flushall()
        assert is_back(await asyncio.wait_for(waiting, 4))

    play(scene)


def test_an_end_that_falls_into_a_lost_subscription_is_not_missed(work: Work, servers: RedisServers) -> None:
    async def scene(instance: Instance) -> None:
        token = begin(work)
        waiting = asyncio.create_task(instance.answer(asked(work), present))
        await settled(instance, work)
        servers.state.client.client_kill_filter(_type="pubsub")
        connections.execute(claims.finishing_stored(work.key, token, 0.1))
        assert is_back(await asyncio.wait_for(waiting, 4))

    play(scene)


def test_an_abandoned_claim_does_not_release_before_its_second(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        token = begin(work)
        began = time.monotonic()
        waiting = asyncio.create_task(instance.answer(asked(work), present))
        await settled(instance, work)
        connections.execute(claims.abandoning(work.key, token))
        assert is_back(await waiting)
        assert time.monotonic() - began >= 0.99

    play(scene)


def test_a_crowd_is_released_after_the_front_was_filled_once(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    filled: list[tuple[str, str]] = []

    class Front:
        async def fill(self, host: str, address: str) -> bool:
            filled.append((host, address))
            return True

    async def scene(instance: Instance) -> None:
        monkeypatch.setattr(instance.waiting, "_front", Front())
        token = begin(work)
        waiting = [asyncio.create_task(instance.answer(asked(work), present)) for _ in range(50)]
        await settled(instance, work)
        connections.execute(claims.starting(work.key, token, "nonce"))
        connections.execute(claims.finishing_stored(work.key, token, 0.1))
        assert all(is_back(reply) for reply in await asyncio.gather(*waiting))
        assert filled == [("testserver", BACK)]

    play(scene)


def test_a_crowd_that_the_front_cannot_answer_is_released_slowly(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        token = begin(work)
        waiting = [asyncio.create_task(instance.answer(asked(work), present)) for _ in range(450)]
        await settled(instance, work)
        began = time.monotonic()
        connections.execute(claims.finishing_failed(work.key, token, PreparationError("No.", status=502), luck=0.9))
        assert all(is_back(reply) for reply in await asyncio.gather(*waiting))
        assert time.monotonic() - began >= 0.2

    play(scene)


@pytest.mark.parametrize("query", [b"", b"redirect=/a", b"%ff=1", b"hop=nan&retry_after=inf"])
def test_malformed_tickets_are_refused_at_once(query: bytes) -> None:
    async def scene(instance: Instance) -> None:
        reply = await asyncio.wait_for(instance.answer(Request("GET", query, "testserver"), present), 0.5)
        assert reply is not None
        assert reply.status == 400
        assert reply.headers["Content-Type"] == "application/problem+json"

    play(scene)


def test_methods_and_preflights() -> None:
    async def scene(instance: Instance) -> None:
        posted = await instance.answer(Request("POST", b"", "testserver"), present)
        preflight = await instance.answer(Request("OPTIONS", b"", "testserver"), present)
        assert posted is not None
        assert preflight is not None
        assert (posted.status, preflight.status) == (405, 204)
        assert preflight.headers["Access-Control-Allow-Origin"] == "*"

    play(scene)


async def answers(coroutines: Sequence[Awaitable[Reply | None]]) -> list[int]:
    return sorted(reply.status for reply in await asyncio.gather(*coroutines) if reply)


def test_clients_past_the_limit_are_refused_at_once(work: Work, settings: Settings) -> None:
    settings.RETRY_MAX_CLIENTS = 2
    settings.DEFAULT_RETRY_TIMEOUT = 0.3

    async def scene(instance: Instance) -> None:
        begin(work)
        assert await answers([instance.answer(asked(work), present) for _ in range(3)]) == [302, 302, 503]

    play(scene)


def test_clients_of_one_address_can_be_limited(work: Work, settings: Settings) -> None:
    settings.RETRY_CLIENTS_PER_ADDRESS = 1
    settings.DEFAULT_RETRY_TIMEOUT = 0.3

    async def scene(instance: Instance) -> None:
        begin(work)
        many = [instance.answer(asked(work, address=address), present) for address in ("a", "a", "b")]
        assert await answers(many) == [302, 302, 503]
        assert instance._per_address == {}

    play(scene)


def test_a_client_that_waits_no_longer_is_told_so(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        began = time.monotonic()
        reply = await instance.answer(asked(work, wait=2), present)
        assert reply is not None
        assert reply.status == 503
        assert 0.9 < time.monotonic() - began < 3
        assert reply.headers["Preference-Applied"] == "wait=2"
        assert int(reply.headers["Retry-After"]) >= 1

    play(scene)


def test_a_client_that_prefers_so_gets_a_status_address_when_its_time_is_up(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, wait=1, respond_async=True), present)
        assert reply is not None
        assert reply.status == 202
        assert reply.headers["Preference-Applied"] == "respond-async, wait=1"
        assert json.loads(reply.body)["status"] == reply.headers["Location"]

    play(scene)


def test_a_client_whose_time_is_long_over_does_not_wait(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await asyncio.wait_for(instance.answer(asked(work, wait=-1), present), 0.5)
        assert reply is not None
        assert reply.status == 503

    play(scene)


def test_a_long_preference_leaves_the_usual_waits_as_they_are(work: Work, settings: Settings) -> None:
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        first = await instance.answer(asked(work, wait=60, respond_async=True), present)
        last = await instance.answer(asked(work, wait=60, respond_async=True, hop=2), present)
        assert first is not None
        assert last is not None
        assert (first.status, last.status) == (302, 202)

    play(scene)


@pytest.mark.parametrize(
    ("delivery", "front", "expected"),
    [
        ("redirect", "asked", None),
        ("redirect", "handed", None),
        ("inline", "", None),
        ("inline", "asked", "/retry_after/returned" + BACK),
        ("internal", "asked", "/retry_after/returned" + BACK),
        ("internal", "handed", "@returned"),
        ("internal", "", None),
    ],
)
def test_the_way_back_is_that_of_the_delivery(
    work: Work, settings: Settings, delivery: str, front: str, expected: str | None
) -> None:
    settings.RETRY_DELIVERY = delivery

    async def scene(instance: Instance) -> None:
        connections.execute(claims.finishing_stored(work.key, begin(work), 0.1))
        reply = await instance.answer(asked(work, front=front), present)
        assert reply is not None
        assert reply.headers.get("X-Accel-Redirect") == expected
        assert reply.headers.get("Location") == (None if expected else BACK)
        if expected:
            assert set(reply.headers) == {"X-Accel-Redirect"}  # all else nginx would add to the content's fields

    play(scene)


@pytest.mark.parametrize("front", ["asked", "handed"])
def test_a_wait_that_is_over_is_seen_by_the_client_in_every_delivery(
    work: Work, settings: Settings, front: str
) -> None:
    settings.RETRY_DELIVERY = "internal"
    settings.DEFAULT_RETRY_TIMEOUT = 0.2

    async def scene(instance: Instance) -> None:
        begin(work)
        reply = await instance.answer(asked(work, front=front), present)
        assert reply is not None
        assert (reply.status, urlsplit(reply.headers["Location"]).path) == (302, "/retry_after")

    play(scene)
