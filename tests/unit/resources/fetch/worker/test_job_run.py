"""One job from its claim to its end, with a real Redis and a real origin."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from threading import main_thread
from typing import Any

import pytest
from pytest_django import Settings

from resources.caches import Snapshot
from resources.fetch import host_settings
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import FetchJob, Waiter
from resources.fetch.worker.job_run import JobRun
from retry import claim_state, stores
from retry.errors import StoreUnavailable
from retry.scripts import ScriptCall, Server
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, Peer, answer
from tests.support.claim_calls import begun, queued
from tests.support.engine_runs import fetch, in_turn, leftovers, one_joins_late
from tests.support.fetch_queue import jobs
from tests.support.fetcher_threads import WAIT_SECONDS, at_rest, content, ended, fetching, want
from tests.support.frontier import record
from tests.support.origin import QUICK, TASK, page_work

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]


async def test_a_place_is_free_while_the_end_of_its_job_is_reported(
    origin: Origin, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_IN_FLIGHT = settings.FETCH_MAX_IN_FLIGHT = 8
    last_came = asyncio.Event()
    real = JobRun._report

    async def report(self: JobRun, *given: Any) -> object:
        await asyncio.wait_for(last_came.wait(), 10)
        return await real(self, *given)

    async def last(peer: Peer) -> None:
        last_came.set()
        await answer(body=b"page")(peer)

    monkeypatch.setattr(JobRun, "_report", report)
    addresses = [origin.does(path, answer(body=b"page")) for path in ("/a", "/b")] + [origin.does("/c", last)]
    works = [page_work(url, str(number)) for number, url in enumerate(addresses)]
    async with fetching(slots=2) as fetcher:
        for work in works:
            await want(work)
        for work in works:
            assert isinstance(await ended(work), claim_state.WorkDone)
        await at_rest()
    assert fetcher.slots.taken["fast"] == 0


@pytest.fixture
def lost_report(monkeypatch: pytest.MonkeyPatch) -> list[ScriptCall]:
    """The first report, once it is made: its reply does not come."""
    monkeypatch.setattr("resources.fetch.worker.held_claims.INSIST_PAUSE_SECONDS", 0.01)
    execute_all, lost = stores.execute_all, list[ScriptCall]()

    async def losing(client: object, server: Server, calls: Sequence[ScriptCall]) -> object:
        replies = await execute_all(client, server, calls)  # type: ignore[arg-type]
        reports = [call for call in calls if call.script == "fetch.report"]
        if reports and not lost:
            lost.extend(reports)
            raise StoreUnavailable("the connection is gone")
        return replies

    monkeypatch.setattr(stores, "execute_all", losing)
    return lost


async def test_a_retry_whose_queueing_was_not_heard_of_is_no_failure(
    origin: Origin, lost_report: list[ScriptCall]
) -> None:
    broken = answer("500 Internal Server Error")
    work = page_work(origin.does("/a", in_turn(broken, broken, answer(body=b"page"))))
    assert isinstance(await fetch(work), claim_state.WorkDone)
    assert origin.targets == ["/a", "/a", "/a"]
    assert lost_report


async def test_a_late_waiter_is_told_though_the_reply_to_the_report_is_lost(
    origin: Origin, lost_report: list[ScriptCall]
) -> None:
    await one_joins_late(origin)
    assert lost_report


async def test_a_download_that_was_slow_is_asked_for_in_the_slow_lane_until_it_is_quick(
    origin: Origin, servers: RedisServers, settings: Settings
) -> None:
    settings.FETCH_SLOW_AFTER_SECONDS = 0.1
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
        while not fetcher.slots.taken["slow"]:
            await asyncio.sleep(0.01)
        assert fetcher.slots.taken["fast"] == 0
        go.set()
        assert isinstance(await ended(first), claim_state.WorkDone)
        assert servers.state.client.zcard("fetch:{0}:slow") == 1
        settings.FETCH_SLOW_AFTER_SECONDS = 60
        await want(again)
        assert isinstance(await ended(again), claim_state.WorkDone)
    assert servers.state.client.zcard("fetch:{0}:slow") == 0


@pytest.mark.parametrize("path", ["/a", "/promised"])
async def test_what_is_wanted_is_fetched_once_and_becomes_content(
    origin: Origin, path: str, servers: RedisServers
) -> None:
    found = await fetch(page_work(origin.does(path, answer(body=b"page"))))
    assert isinstance(found, claim_state.WorkDone)
    assert found.outcome == "stored"
    stored = await content("content:page")
    assert stored
    assert stored.body == b"page"
    [asked] = origin.asked
    assert asked.fields["x-host"] == "127.0.0.1"
    assert leftovers(servers) == []


@pytest.mark.parametrize("path", ["/a", "/unprepared"])
async def test_a_body_in_a_file_is_removed_afterwards(origin: Origin, path: str, settings: Settings) -> None:
    settings.FETCH_SPOOL_BYTES = 10
    work = page_work(origin.does(path, answer(body=b"page" * 100)))
    async with fetching():  # which looks for files at its end
        await want(work)
        await ended(work)


@pytest.mark.parametrize(("spool_bytes", "threads"), [(1000, [False, False]), (10, [False, True])])
async def test_a_task_that_is_at_once_needs_no_thread_but_for_a_body_in_a_file(
    origin: Origin, spool_bytes: int, threads: list[bool], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_SPOOL_BYTES = spool_bytes
    monkeypatch.setattr(host_settings, "headers_snapshot", Snapshot("headers", dict, lambda: 3600))
    host_settings.headers_snapshot.get()
    QUICK.called_by.clear()
    work = replace(page_work(origin.does("/a", answer(body=b"page" * 100))), task="tests.quick")
    assert isinstance(await fetch(work), claim_state.WorkDone)
    assert [thread is not main_thread() for thread in QUICK.called_by] == threads


async def test_what_several_want_is_one_request_and_all_get_it(origin: Origin, servers: RedisServers) -> None:
    url = origin.does("/a", answer(body=b"page"))
    works = [page_work(url, name) for name in ("one", "two", "three")]
    for work in works:
        await want(work)
    async with fetching():
        for work in works:
            assert isinstance(await ended(work), claim_state.WorkDone)
    assert origin.targets == ["/a"]
    for name in ("one", "two", "three"):
        assert await content(f"content:{name}")
    assert leftovers(servers) == []


@pytest.mark.parametrize(("tries_again", "times"), [(True, 2), (False, 1)])
async def test_what_is_too_slow_is_tried_once_more_unless_its_task_does_not_want_that(
    origin: Origin, settings: Settings, monkeypatch: pytest.MonkeyPatch, *, tries_again: bool, times: int
) -> None:
    settings.FETCH_HEAD_SECONDS = 0.2
    settings.FETCH_BACKOFF_BASE_SECONDS = 0.01
    monkeypatch.setattr(TASK, "settles_waits", not tries_again, raising=False)
    found = await fetch(page_work(origin.does("/a", Peer.hang)))
    assert isinstance(found, claim_state.WorkFailed)
    assert found.status == 504
    assert origin.targets == ["/a"] * times


async def test_clients_do_not_wait_for_longer_than_they_do_for_a_server_that_asks_for_time(
    origin: Origin, servers: RedisServers
) -> None:
    found = await fetch(page_work(origin.does("/a", answer("429 Too Many Requests", "Retry-After: 300"))))
    assert isinstance(found, claim_state.WorkFailed)
    assert found.status == 503
    assert 299 <= found.wait_seconds <= 301
    assert origin.targets == ["/a"]
    assert leftovers(servers) == []


@pytest.mark.parametrize(
    ("path", "status"), [("/unplanned", 404), ("/unprepared", 502), ("/unstorable", 502), ("/promised/unprepared", 502)]
)
async def test_a_task_that_fails_is_a_failure(origin: Origin, path: str, status: int, servers: RedisServers) -> None:
    found = await fetch(page_work(origin.does(path, answer(body=b"page"))))
    assert isinstance(found, claim_state.WorkFailed)
    assert found.status == status
    assert leftovers(servers) == []


async def test_work_that_nobody_holds_a_claim_to_is_not_fetched(origin: Origin, servers: RedisServers) -> None:
    url = origin.does("/a", answer(body=b"page"))
    gone, wanted = page_work(url, "gone"), page_work(origin.does("/b", answer(body=b"page")), "wanted")
    await want(gone)
    await asyncio.to_thread(servers.state.client.delete, f"retry:{{0}}:claim:{gone.key}")
    await want(wanted)
    async with fetching():
        assert isinstance(await ended(wanted), claim_state.WorkDone)
    assert origin.targets == ["/b"]


async def test_work_that_this_version_cannot_read_waits_for_another(origin: Origin, servers: RedisServers) -> None:
    work = page_work(origin.does("/a", answer(body=b"page")))
    token = (await asyncio.to_thread(begun, work)).token
    url = str(work.arguments[0])
    job = FetchJob(url, url, Waiter(work.key, '{"of": "another version"}', token))
    await asyncio.to_thread(stores.run_steps, queue.enqueue_job(job))
    async with fetching(), asyncio.timeout(WAIT_SECONDS):
        while jobs(servers):
            await asyncio.sleep(0.01)
    assert queued(servers, "fetch.fast") == {work.key}
    assert origin.asked == []


async def test_contents_that_cannot_be_stored_take_no_other_job_along(origin: Origin) -> None:
    bad = [page_work(origin.does(f"/unstorable{number}", answer(body=b"page")), f"bad{number}") for number in range(3)]
    good = page_work(origin.does("/a", answer(body=b"page")), "good")
    async with fetching():
        for work in [*bad, good]:
            await want(work)
        *failed, stored = await asyncio.gather(*(ended(work) for work in [*bad, good]))
        assert isinstance(stored, claim_state.WorkDone)
        assert all(isinstance(each, claim_state.WorkFailed) for each in failed)


async def test_an_address_that_cannot_be_sent_says_nothing_of_its_host(origin: Origin) -> None:
    long = page_work(origin.url("/" + "a" * 2100), "long")
    robots = replace(page_work(origin.url("/" + "b" * 2100), "robots"), task="tests.obedient")
    async with fetching():
        for work in (long, robots):
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkFailed)
    assert float(record(f"127.0.0.1:{origin.port}").get("failures", 0)) == 0
    assert origin.targets == []
