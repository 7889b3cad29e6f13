"""Rooms: the time at which each waiting client is sent back, and that none is forgotten."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pytest_django import Settings

from retry import claims, contents, rooms, stores, subscription
from retry.contents import Prepared
from retry.instance import WaitingInstance
from retry.rooms import WaitingClients
from retry.work import Work
from tests.conftest import RedisServers
from tests.support import clock
from tests.support.claim_calls import fail, finish, start
from tests.support.waiting_clients import BACK, KEY, answered, asked, begin, is_back, joined, played, settled
from tests.unit.conftest import close_breakers

pytestmark = pytest.mark.usefixtures("servers")


@played
async def test_every_client_of_every_content_of_the_work_is_sent_back(instance: WaitingInstance, work: Work) -> None:
    token = begin(work)
    waiting = [asyncio.create_task(answered(instance, asked(work, key=f"k{n % 5}"))) for n in range(100)]
    for number in range(5):
        await settled(instance, work, f"k{number}")
    finish(work, start(work, token))
    for reply in await asyncio.wait_for(asyncio.gather(*waiting), 1):
        assert is_back(reply)
        assert (reply.headers["Cache-Control"], reply.headers["Access-Control-Allow-Origin"]) == ("no-store", "*")


def store(work: Work) -> None:
    begin(work)
    store_content()


def store_content() -> None:
    content = Prepared(b"x", "image/png", 0, 60)
    stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), 0.1))


@pytest.fixture
def unknown_wait_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown clients are not sent back while a test looks."""
    monkeypatch.setattr(rooms, "UNKNOWN_WAIT_SECONDS", 30)


@pytest.mark.parametrize(
    "prepare",
    [store, lambda work: fail(work, begin(work)), lambda work: finish(work, begin(work))],
    ids=["content", "failure", "done mark"],
)
@pytest.mark.usefixtures("unknown_wait_long")
@played
async def test_an_answer_that_is_there_already_is_not_waited_for(
    instance: WaitingInstance, work: Work, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Work], object]
) -> None:
    monkeypatch.setattr(WaitingClients, "look_again", lambda _: None)  # neither now and then nor after a subscription
    prepare(work)
    assert is_back(await clock.within(0.5, answered(instance, asked(work))))


@played
async def test_a_client_of_unknown_work_waits_a_second(instance: WaitingInstance, work: Work) -> None:
    began = time.monotonic()
    assert is_back(await answered(instance, asked(work)))
    assert time.monotonic() - began >= 0.99


@played
async def test_a_client_that_leaves_is_released_at_once(instance: WaitingInstance, work: Work) -> None:
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


def test_without_redis_the_clock_is_enough(work: Work, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"

    @played  # the instance opens after the change of the setting
    async def scene(instance: WaitingInstance) -> None:
        began, ran = time.monotonic(), clock.seconds()
        assert is_back(await answered(instance, asked(work, expected_in=1.5)))
        assert time.monotonic() - began > 1.2
        assert clock.seconds() - ran < 4

    scene()


@played
async def test_a_client_that_waited_before_an_outage_stays_for_its_grace_whatever_the_clock_says(
    instance: WaitingInstance, work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "UNKNOWN_WAIT_SECONDS", 0)
    monkeypatch.setattr(rooms, "OUTAGE_GRACE_SECONDS", 0.5)
    monkeypatch.setattr(subscription, "LOOK_AGAIN_SECONDS", 0.05)
    begin(work)
    [client] = await joined(instance, work, expected_in=0)
    began = time.monotonic()
    servers.state.stop()
    assert is_back(await client)
    assert time.monotonic() - began >= 0.5


@played
async def test_while_the_cache_is_away_clients_wait_on_whatever_the_clock_says(
    instance: WaitingInstance, work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "UNKNOWN_WAIT_SECONDS", 0)
    monkeypatch.setattr(rooms, "OUTAGE_GRACE_SECONDS", 0)
    monkeypatch.setattr(subscription, "LOOK_AGAIN_SECONDS", 0.05)
    begin(work)
    [early] = await joined(instance, work, expected_in=0)
    servers.cache.stop()
    late = asyncio.create_task(answered(instance, asked(work, expected_in=0)))
    other = asyncio.create_task(answered(instance, asked(replace(work, key="unknown"), expected_in=0)))
    back, _ = await asyncio.wait({early, late, other}, timeout=0.5)
    assert back == set()
    servers.cache.start()
    close_breakers()
    store_content()
    assert all(is_back(reply) for reply in await asyncio.wait_for(asyncio.gather(early, late, other), 5))


@played
async def test_what_was_lost_with_the_cache_is_waited_for_until_it_may_be_prepared_anew(
    instance: WaitingInstance, work: Work, servers: RedisServers
) -> None:
    finish(work, begin(work))
    servers.state.client.hset(f"retry:{{0}}:done:{work.key}", "until", int(time.time() * 1000) + 1500)
    stores.execute_call(claims.look_call("paint:other", cache_is_away=True))
    began = time.monotonic()
    assert is_back(await answered(instance, asked(work)))
    assert time.monotonic() - began >= 1.2


@pytest.mark.parametrize("prepare", [store, lambda work: None], ids=["content", "unknown"])
@played
async def test_a_client_that_main_could_not_answer_is_sent_back_after_its_least_wait_and_no_other_waits_for_it(
    instance: WaitingInstance, work: Work, prepare: Callable[[Work], object]
) -> None:
    prepare(work)
    began = time.monotonic()
    held = asyncio.create_task(answered(instance, asked(work, least=2)))
    assert is_back(await asyncio.wait_for(answered(instance, asked(work)), 1.9))
    assert not held.done()
    assert is_back(await held)
    assert time.monotonic() - began >= 1.99


@played
async def test_closing_answers_also_a_client_within_its_least_wait(instance: WaitingInstance, work: Work) -> None:
    store(work)
    held = asyncio.create_task(answered(instance, asked(work, least=20)))
    while not instance.waiting.count:
        await asyncio.sleep(0.01)
    instance.waiting.close()
    assert "hop=1" in (await clock.within(1, held)).headers["Location"]


@pytest.mark.parametrize("lost", ["claim", "subscription"])
@played
async def test_what_no_message_tells_of_while_clients_wait_is_not_missed(
    instance: WaitingInstance, work: Work, servers: RedisServers, lost: str
) -> None:
    token = begin(work)
    [waiting] = await joined(instance, work)
    if lost == "claim":
        servers.state.client.flushall()
    else:
        servers.state.client.client_kill_filter(_type="pubsub")
        finish(work, token)
    assert is_back(await asyncio.wait_for(waiting, 4))


@played
async def test_an_abandoned_claim_does_not_release_before_its_second(instance: WaitingInstance, work: Work) -> None:
    token = begin(work)
    began = time.monotonic()
    [waiting] = await joined(instance, work)
    stores.execute_call(claims.abandon_call(work.key, token))
    assert is_back(await waiting)
    assert time.monotonic() - began >= 0.99


@played
async def test_a_crowd_is_released_after_the_front_was_filled_once(
    instance: WaitingInstance, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled: list[tuple[str, str]] = []

    class Front:
        async def fill(self, host: str, address: str) -> bool:
            filled.append((host, address))
            return True

    monkeypatch.setattr(instance.waiting, "_front", Front())
    token = begin(work)
    waiting = await joined(instance, work, 50)
    finish(work, start(work, token))
    assert all(is_back(reply) for reply in await asyncio.gather(*waiting))
    assert filled == [("testserver", BACK)]


@played
async def test_a_crowd_that_the_front_cannot_answer_is_released_slowly(instance: WaitingInstance, work: Work) -> None:
    token = begin(work)
    waiting = await joined(instance, work, 450)
    began = time.monotonic()
    fail(work, token)
    assert all(is_back(reply) for reply in await asyncio.gather(*waiting))
    assert time.monotonic() - began >= 0.2
