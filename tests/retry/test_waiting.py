"""Waiting: who is sent back when, and that nobody is forgotten."""

import asyncio
import time
from datetime import UTC, datetime

import pytest
from pytest_django import Settings

from retry import claims, connections, contents, subscribing, waiting
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.instance import Instance
from retry.preparing import prepare
from retry.waiting import Waiting
from retry.work import Work
from tests import clock
from tests.conftest import RedisServers
from tests.retry.clients import BACK, KEY, asked, begin, is_back, play, present, settled

pytestmark = pytest.mark.usefixtures("servers")


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
        assert is_back(await clock.within(0.9, instance.answer(asked(work), present)))

    play(scene)


@pytest.fixture
def unknown_wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of whom nothing is known are not sent back while a test looks."""
    monkeypatch.setattr(waiting, "UNKNOWN_SECONDS", 30)


@pytest.mark.usefixtures("unknown_wait_long")
def test_a_failure_sends_the_client_back_to_hear_of_it(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        call = claims.finishing_failed(work.key, begin(work), PreparationError("No.", status=502), luck=0.9)
        connections.execute(call)
        assert is_back(await clock.within(0.9, instance.answer(asked(work), present)))

    play(scene)


@pytest.mark.usefixtures("unknown_wait_long")
def test_a_done_mark_sends_the_client_back(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        connections.execute(claims.finishing_stored(work.key, begin(work), 0.1))
        assert is_back(await clock.within(0.9, instance.answer(asked(work), present)))

    play(scene)


@pytest.mark.usefixtures("unknown_wait_long")
def test_who_comes_after_the_end_is_looked_for_at_once(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Waiting, "look_again", lambda _: None)  # neither now and then nor after a subscription

    async def scene(instance: Instance) -> None:
        connections.execute(claims.finishing_stored(work.key, begin(work), 0.1))
        assert is_back(await clock.within(0.5, instance.answer(asked(work), present)))

    play(scene)


def test_a_client_of_whom_nothing_is_known_waits_a_second(work: Work) -> None:
    async def scene(instance: Instance) -> None:
        began = time.monotonic()
        assert is_back(await instance.answer(asked(work), present))
        assert time.monotonic() - began >= 0.99

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
        assert await clock.within(0.5, waiting) is None
        assert instance.waiting.count == 0

    play(scene)


def test_without_redis_the_clock_is_enough(work: Work, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"

    async def scene(instance: Instance) -> None:
        began, ran = time.monotonic(), clock.seconds()
        assert is_back(await instance.answer(asked(work, expected_in=1.5), present))
        assert time.monotonic() - began > 1.2
        assert clock.seconds() - ran < 4

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
