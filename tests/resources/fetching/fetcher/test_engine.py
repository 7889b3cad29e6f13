"""A fetcher's engine from claim to content, with a real Redis and a real origin."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from pytest_django import Settings

from resources.fetching.keeping import hosts
from resources.fetching.queues import frontier
from retry import connections, standings
from tests.conftest import RedisServers
from tests.hostile.origin import Behaviour, Origin, Peer, answer, redirect
from tests.resources.fetching.fetchers import content, ended, fetching, stands, want
from tests.resources.fetching.pages import page_work

pytestmark = pytest.mark.usefixtures("servers")


@pytest.fixture(autouse=True)
def _settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "headers_of", lambda host: {"X-Host": host.partition(":")[0]})  # those of a database
    settings.FETCH_TASKS = {
        "tests.page": "tests.resources.fetching.pages.TASK",
        "tests.obedient": "tests.resources.fetching.pages.OBEDIENT",
    }
    settings.FETCH_DELAY_SECONDS = 0.02
    settings.FETCH_BACKOFF_BASE_SECONDS = 0.02


def run(test: Callable[[Origin], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Origin() as origin:
            await test(origin)

    asyncio.run(whole())


def in_turn(*behaviours: Behaviour) -> Behaviour:
    """One after the other, the last for ever."""
    left = list(behaviours)

    async def behave(peer: Peer) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(peer)

    return behave


def leftovers(servers: RedisServers) -> list[bytes]:
    """What is in the frontier and the claims besides what was learnt and remembered."""
    kept = (b"fetch:domain", b"fetch:token", b"fetch:idle", b"fetch:queued", b"fetch:evidence", b"retry:d")
    kept_too = (b"retry:token", b"retry:started", b"retry:failure", b"fetch:stalls", b"fetch:fetchers")
    return [key for key in servers.state.client.scan_iter() if not key.startswith(kept + kept_too)]


def test_what_is_wanted_is_fetched_once_and_becomes_content(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, standings.Done)
        assert found.outcome == "stored"
        stored = await content("content:page")
        assert stored
        assert stored.body == b"page"
        [asked] = origin.asked
        assert asked.fields["x-host"] == "127.0.0.1"

    run(test)
    assert leftovers(servers) == []


def test_what_several_want_is_one_request_and_all_get_it(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        url = origin.does("/a", answer(body=b"page"))
        works = [page_work(url, name) for name in ("one", "two", "three")]
        for work in works:
            await want(work)
        async with fetching():
            for work in works:
                assert isinstance(await ended(work), standings.Done)
        assert origin.targets == ["/a"]
        for name in ("one", "two", "three"):
            assert await content(f"content:{name}")

    run(test)
    assert leftovers(servers) == []


def test_who_joins_while_it_is_in_flight_gets_it_too() -> None:
    async def test(origin: Origin) -> None:
        arrived, go = asyncio.Event(), asyncio.Event()

        async def held(peer: Peer) -> None:
            arrived.set()
            await go.wait()
            await answer(body=b"page")(peer)

        url = origin.does("/a", held)
        first, late = page_work(url, "first"), page_work(url, "late")
        async with fetching():
            await want(first)
            await arrived.wait()
            await want(late)
            go.set()
            assert isinstance(await ended(first), standings.Done)
            assert isinstance(await ended(late), standings.Done)
        assert origin.targets == ["/a"]

    run(test)


def test_what_fails_for_a_while_is_tried_again_while_clients_wait() -> None:
    async def test(origin: Origin) -> None:
        broken = answer("500 Internal Server Error")
        work = page_work(origin.does("/a", in_turn(broken, broken, answer(body=b"page"))))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, standings.Done)
        assert len(origin.targets) == 3

    run(test)


def test_what_fails_for_good_is_a_failure_at_once() -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer("404 Not Found")))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, standings.Failed)
        assert (found.status, found.detail) == (502, "answered 404")
        assert origin.targets == ["/a"]

    run(test)


def test_clients_do_not_wait_for_longer_than_they_do_for_a_server_that_asks_for_time(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer("429 Too Many Requests", "Retry-After: 300")))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, standings.Failed)
        assert found.status == 503
        assert 299 <= found.wait_seconds <= 301
        assert origin.targets == ["/a"]

    run(test)
    assert leftovers(servers) == []


def test_a_short_refusal_is_waited_for() -> None:
    async def test(origin: Origin) -> None:
        refused = answer("429 Too Many Requests", "Retry-After: 1")
        work = page_work(origin.does("/a", in_turn(refused, answer(body=b"page"))))
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), standings.Done)
        assert len(origin.targets) == 2

    run(test)


@pytest.mark.parametrize(("path", "status"), [("/unplanned", 404), ("/unprepared", 502)])
def test_a_task_that_fails_is_a_failure(path: str, status: int, servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does(path, answer(body=b"page")))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, standings.Failed)
        assert found.status == status

    run(test)
    assert leftovers(servers) == []


def test_work_that_nobody_holds_a_claim_to_is_not_fetched(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        url = origin.does("/a", answer(body=b"page"))
        gone, wanted = page_work(url, "gone"), page_work(origin.does("/b", answer(body=b"page")), "wanted")
        await want(gone)
        await asyncio.to_thread(servers.state.client.delete, f"retry:claim:{gone.key}")
        await want(wanted)
        async with fetching():
            assert isinstance(await ended(wanted), standings.Done)
        assert origin.targets == ["/b"]

    run(test)


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
            async with fetching(fast=3, slow=1):
                for work in works:
                    assert isinstance(await ended(work), standings.Done)
        assert most == 3

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


def test_jobs_are_kept_while_they_are_in_flight(settings: Settings, servers: RedisServers) -> None:
    settings.FETCH_LEASE_SECONDS = 0.3
    settings.RETRY_LEASE_SECONDS = 0.3

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
            await asyncio.sleep(0.6)  # two leases
            assert servers.state.client.zcard("fetch:leases") == 1
            go.set()
            assert isinstance(await ended(work), standings.Done)
        assert token
        assert origin.targets == ["/a"]

    run(test)


def test_the_robots_of_an_origin_are_asked_first_and_kept_to(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        origin.does("/robots.txt", answer(body=b"User-agent: *\nCrawl-delay: 1\n"))
        url = origin.does("/a", answer(body=b"page"))
        work = replace(page_work(url), task="tests.obedient")
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), standings.Done)
        assert origin.targets == ["/robots.txt", "/a"]
        kept = connections.run(frontier.look(url.split("/")[2]))[1]
        assert float(kept["crawl"]) == 1000

    run(test)


def test_a_redirect_waits_for_its_turn_at_the_host_that_it_leads_to() -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            other.does("/b", answer(body=b"page"))
            work = page_work(origin.does("/a", redirect(other.url("/b"))))
            await asyncio.to_thread(connections.run, frontier.block(f"127.0.0.2:{other.port}", 1))
            async with fetching():
                began = asyncio.get_running_loop().time()
                await want(work)
                assert isinstance(await ended(work), standings.Done)
                assert asyncio.get_running_loop().time() - began >= 0.9

    run(test)


def test_a_redirect_does_not_ask_a_host_that_is_left_alone(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            work = page_work(origin.does("/a", redirect(other.does("/b", answer(body=b"page")))))
            await asyncio.to_thread(connections.run, frontier.block(f"127.0.0.2:{other.port}", 300))
            async with fetching():
                await want(work)
                found = await ended(work)
            assert isinstance(found, standings.Failed)
            assert 290 < found.wait_seconds <= 300
            assert other.targets == []

    run(test)
    assert leftovers(servers) == []


def test_a_refusal_behind_a_redirect_is_that_hosts_own(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            refused = answer("429 Too Many Requests", "Retry-After: 300")
            work = page_work(origin.does("/a", redirect(other.does("/b", refused))))
            async with fetching():
                await want(work)
                assert isinstance(await ended(work), standings.Failed)
            blocked = connections.run(frontier.look(f"127.0.0.2:{other.port}"))
            assert float(blocked[1]["block_until"]) - blocked[0] > 290_000
            sender = connections.run(frontier.look(f"127.0.0.1:{origin.port}"))
            assert float(sender[1].get("throttled", 0)) == 0
            assert float(sender[1].get("block_until", 0)) <= sender[0]

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
            await want(again)
            assert isinstance(await ended(again), standings.Done)
        assert servers.state.client.keys("fetch:slow:*") == []

    run(test)
