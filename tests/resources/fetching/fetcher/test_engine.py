"""A fetcher's engine from claim to content, with a real Redis and a real origin."""

import asyncio
from dataclasses import replace
from threading import main_thread

import pytest
from pytest_django import Settings

from resources.fetching.errands import Errand
from resources.fetching.fetcher import planning
from resources.fetching.keeping import hosts
from resources.fetching.queues import frontier
from resources.fetching.queues.jobs import Job, Wish
from resources.snapshots import Snapshot
from retry import connections, standings
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, Peer, answer
from tests.resources.fetching.fetcher.running import in_turn, leftovers, one_joins_late, run
from tests.resources.fetching.fetchers import WAIT_SECONDS, content, ended, fetching, want
from tests.resources.fetching.handed_over import jobs
from tests.resources.fetching.pages import QUICK, TASK, page_work
from tests.retry.claiming import begun, queued

pytestmark = pytest.mark.usefixtures("pages")


@pytest.mark.parametrize("path", ["/a", "/promised"])
def test_what_is_wanted_is_fetched_once_and_becomes_content(path: str, servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does(path, answer(body=b"page")))
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


@pytest.mark.parametrize("path", ["/a", "/unprepared"])
def test_a_body_in_a_file_is_removed_afterwards(path: str, settings: Settings) -> None:
    settings.FETCH_SPOOL_BYTES = 10

    async def test(origin: Origin) -> None:
        work = page_work(origin.does(path, answer(body=b"page" * 100)))
        async with fetching():  # which looks for files at its end
            await want(work)
            await ended(work)

    run(test)


@pytest.mark.parametrize(("spool_bytes", "threads"), [(1000, [False, False]), (10, [False, True])])
def test_a_task_that_is_at_once_needs_no_thread_but_for_a_body_in_a_file(
    spool_bytes: int, threads: list[bool], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_SPOOL_BYTES = spool_bytes
    monkeypatch.setattr(hosts, "snapshot", Snapshot("headers", dict, lambda: 3600))
    hosts.snapshot.get()
    QUICK.called_by.clear()

    async def test(origin: Origin) -> None:
        work = replace(page_work(origin.does("/a", answer(body=b"page" * 100))), task="tests.quick")
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), standings.Done)

    run(test)
    assert [thread is not main_thread() for thread in QUICK.called_by] == threads


def test_nothing_is_planned_at_once_while_somebody_would_have_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "snapshot", Snapshot("headers", dict, lambda: 3600))
    errand = Errand("tests.quick", "work", 1, ("https://a.example.com/1", "content"))
    assert planning.plan_at_once([errand]) is None
    hosts.snapshot.get()
    plan = planning.plan_at_once([errand])
    assert plan
    assert plan.fetch
    assert plan.fetch.url == "https://a.example.com/1"


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
    run(one_joins_late)


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


@pytest.mark.parametrize(("tries_again", "times"), [(True, 2), (False, 1)])
def test_what_is_too_slow_is_tried_once_more_unless_its_task_does_not_want_that(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, tries_again: bool, times: int
) -> None:
    settings.FETCH_HEAD_SECONDS = 0.2
    settings.FETCH_BACKOFF_BASE_SECONDS = 0.01
    monkeypatch.setattr(TASK, "settles_waits", not tries_again, raising=False)

    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", Peer.hang))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, standings.Failed)
        assert found.status == 504
        assert origin.targets == ["/a"] * times

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


@pytest.mark.parametrize(
    ("path", "status"), [("/unplanned", 404), ("/unprepared", 502), ("/unstorable", 502), ("/promised/unprepared", 502)]
)
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


def test_work_that_this_version_cannot_read_waits_for_another(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        token = (await asyncio.to_thread(begun, work)).token
        url = str(work.arguments[0])
        job = Job(url, url, Wish(work.key, '{"of": "another version"}', token))
        await asyncio.to_thread(connections.run, frontier.enqueue(job))
        async with fetching(), asyncio.timeout(WAIT_SECONDS):
            while jobs(servers):
                await asyncio.sleep(0.01)
        assert queued(servers, "fetch.fast") == {work.key}
        assert origin.asked == []

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
