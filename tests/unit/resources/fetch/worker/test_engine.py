"""A fetcher's engine as it ends, is full, loses Redis, and holds what it has in hand."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from resources.fetching.fetcher.concluding import Concluder
from retry import connections, standings
from retry.errors import StoreUnavailable
from retry.scripts import Call, Server
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, Peer, answer
from tests.resources.fetching.fetcher.running import in_turn, one_joins_late, run
from tests.resources.fetching.fetchers import WAIT_SECONDS, at_rest, ended, fetching, stands, want
from tests.resources.fetching.pages import page_work

pytestmark = pytest.mark.usefixtures("pages")


def test_a_fetcher_that_is_told_to_end_finishes_what_is_in_flight() -> None:
    async def test(origin: Origin) -> None:
        arrived, go = asyncio.Event(), asyncio.Event()

        async def held(peer: Peer) -> None:
            arrived.set()
            await go.wait()
            await answer(body=b"page")(peer)

        work = page_work(origin.does("/a", held))
        async with fetching() as fetcher:
            await want(work)
            await arrived.wait()
            ending = asyncio.create_task(fetcher.end())
            go.set()
            await ending
        assert isinstance(await stands(work), standings.Done)

    run(test)


def test_what_a_fetcher_cannot_finish_it_gives_back(monkeypatch: pytest.MonkeyPatch, servers: RedisServers) -> None:
    monkeypatch.setattr("resources.fetching.fetcher.engine.LEAVE_SECONDS", 0.05)

    async def test(origin: Origin) -> None:
        arrived = asyncio.Event()

        async def hang(peer: Peer) -> None:
            arrived.set()
            await peer.hang()

        work = page_work(origin.does("/a", in_turn(hang, answer(body=b"page"))))
        async with fetching():
            await want(work)
            await arrived.wait()
        assert isinstance(await stands(work), standings.Claimed)
        async with fetching():
            assert isinstance(await ended(work), standings.Done)
        assert origin.targets == ["/a", "/a"]

    run(test)


def test_there_are_never_more_in_flight_than_slots(settings: Settings) -> None:
    settings.FETCH_DELAY_SECONDS = 0.001

    async def test(_: Origin) -> None:
        most = now = 0
        full = asyncio.Event()

        async def count(peer: Peer) -> None:
            nonlocal most, now
            now += 1
            most = max(most, now)
            if now == 3:
                full.set()
            await asyncio.wait_for(full.wait(), 5)
            now -= 1
            await answer(body=b"page")(peer)

        async with AsyncExitStack() as stack:
            origins = [await stack.enter_async_context(Origin(f"127.0.0.{last}")) for last in range(1, 8)]
            addresses = [origin.does("/a", count) for origin in origins]
            works = [page_work(url, str(number)) for number, url in enumerate(addresses)]
            for work in works:
                await want(work)
            async with fetching(slots=3):
                for work in works:
                    assert isinstance(await ended(work), standings.Done)
        assert most == 3

    run(test)


def test_a_place_is_free_while_the_end_of_its_job_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_IN_FLIGHT = 8

    async def test(origin: Origin) -> None:
        last_came = asyncio.Event()
        real = Concluder._report_the_end

        async def report(self: Concluder, *given: Any) -> object:
            await asyncio.wait_for(last_came.wait(), 10)
            return await real(self, *given)

        async def last(peer: Peer) -> None:
            last_came.set()
            await answer(body=b"page")(peer)

        monkeypatch.setattr(Concluder, "_report_the_end", report)
        addresses = [origin.does(path, answer(body=b"page")) for path in ("/a", "/b")] + [origin.does("/c", last)]
        works = [page_work(url, str(number)) for number, url in enumerate(addresses)]
        async with fetching(slots=2) as fetcher:
            for work in works:
                await want(work)
            for work in works:
                assert isinstance(await ended(work), standings.Done)
            await at_rest()
        assert fetcher.slots.taken("fast") == 0

    run(test)


def test_a_lane_that_opens_with_time_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.fetching.fetcher.slots.LATELY_SECONDS", 1.0)

    async def test(origin: Origin) -> None:
        work = replace(page_work(origin.does("/a", answer(body=b"page"))), lane="fetch.large")
        async with fetching(4) as fetcher:
            for place in [fetcher.slots.take("fast"), fetcher.slots.take("fast")]:
                place.leave()
            held = [fetcher.slots.take("slow"), fetcher.slots.take("slow")]
            assert fetcher.slots.rooms.keys() == {"fast"}
            await want(work)
            assert isinstance(await ended(work), standings.Done)
            for place in held:
                place.leave()

    run(test)


def test_a_fetcher_survives_a_redis_that_is_away_for_a_while(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        async with fetching():
            servers.state.stop()
            await asyncio.sleep(0.2)
            servers.state.start()  # by this thread: it dies with who started it
            connections.BREAKERS["state"].succeeded()
            await want(work)
            assert isinstance(await ended(work), standings.Done)

    run(test)


def test_claims_whose_replies_are_lost_are_no_lapses(
    servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.FETCH_LEASE_SECONDS = 3600
    monkeypatch.setattr("resources.fetching.fetcher.engine.PAUSE_SECONDS", 0.01)
    execute_all, lost = connections.execute_all, list[Call]()

    async def losing(client: object, server: Server, calls: Sequence[Call]) -> object:
        replies = await execute_all(client, server, calls)  # type: ignore[arg-type]
        handed_out = [isinstance(reply, list) and reply[0] == b"claimed" for reply in replies]
        if any(handed_out) and len(lost) < 3:
            lost.extend(calls)
            raise StoreUnavailable("the connection is gone")
        return replies

    monkeypatch.setattr(connections, "execute_all", losing)

    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), standings.Done)

    run(test)
    assert len(lost) >= 3
    said = [record.message for record in caplog.records if record.name == "tarry.fetching"]
    assert said == ["nothing can be claimed", "claims are answered again"]


@pytest.fixture
def lost_report(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """The first report, once it is made: its reply does not come."""
    monkeypatch.setattr("resources.fetching.fetcher.trips.AGAIN_SECONDS", 0.01)
    execute_all, lost = connections.execute_all, list[Call]()

    async def losing(client: object, server: Server, calls: Sequence[Call]) -> object:
        replies = await execute_all(client, server, calls)  # type: ignore[arg-type]
        reports = [call for call in calls if call.script == "fetch.report"]
        if reports and not lost:
            lost.extend(reports)
            raise StoreUnavailable("the connection is gone")
        return replies

    monkeypatch.setattr(connections, "execute_all", losing)
    return lost


def test_a_retry_whose_queueing_was_not_heard_of_is_no_failure(lost_report: list[Call]) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", in_turn(answer("500 Internal Server Error"), answer(body=b"page"))))
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), standings.Done)
        assert origin.targets == ["/a", "/a"]

    run(test)
    assert lost_report


def test_who_joined_late_is_told_though_the_report_was_not_heard_of(lost_report: list[Call]) -> None:
    run(one_joins_late)
    assert lost_report


def test_jobs_are_kept_while_they_are_in_flight(settings: Settings, servers: RedisServers) -> None:
    settings.FETCH_LEASE_SECONDS = settings.RETRY_LEASE_SECONDS = 3

    async def test(origin: Origin) -> None:
        go = asyncio.Event()

        async def held(peer: Peer) -> None:
            await go.wait()
            await answer(body=b"page")(peer)

        work = page_work(origin.does("/a", held))
        async with fetching():
            token = await want(work)
            while not origin.targets:
                await asyncio.sleep(0.01)
            await asyncio.sleep(6)  # two leases
            assert servers.state.client.zcard("fetch:leases") == 1
            go.set()
            assert isinstance(await ended(work), standings.Done)
        assert token
        assert origin.targets == ["/a"]

    run(test)


def test_a_download_that_was_slow_is_asked_for_in_the_slow_lane_until_it_is_quick(
    servers: RedisServers, settings: Settings
) -> None:
    settings.FETCH_SLOW_AFTER_SECONDS = 0.1

    async def test(origin: Origin) -> None:
        halfway, go = asyncio.Event(), asyncio.Event()

        async def slow(peer: Peer) -> None:
            await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npa")
            halfway.set()
            await go.wait()
            await peer.send(b"ge")

        url = origin.does("/a", in_turn(slow, answer(body=b"page")))
        first, again = page_work(url, "first"), page_work(url, "again")
        async with fetching() as fetcher:
            await want(first)
            await halfway.wait()
            while not fetcher.slots.taken("slow"):
                await asyncio.sleep(0.01)
            assert fetcher.slots.taken("fast") == 0
            go.set()
            assert isinstance(await ended(first), standings.Done)
            assert servers.state.client.keys("fetch:slow:*")
            settings.FETCH_SLOW_AFTER_SECONDS = 60
            await want(again)
            assert isinstance(await ended(again), standings.Done)
        assert servers.state.client.keys("fetch:slow:*") == []

    run(test)


def test_a_job_that_fails_as_nobody_foresaw_is_logged_without_its_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("resources.fetching.fetcher.attending.Attendant.attend", broken)

    async def test(origin: Origin) -> None:
        async with fetching():
            await want(page_work(origin.does("/a?token=secret", answer(body=b"page"))))
            async with asyncio.timeout(WAIT_SECONDS):
                while "a job failed" not in caplog.text:
                    await asyncio.sleep(0.01)

    run(test)
    [record] = [record for record in caplog.records if record.message == "a job failed"]
    assert vars(record)["host"].startswith("127.0.0.1:")
    assert "secret" not in str(vars(record))
