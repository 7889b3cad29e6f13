"""The engine with a real Redis and a real origin: claims, hostile answers, full slots, outages, rest, and its end."""

import asyncio
import tracemalloc
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from threading import main_thread
from typing import Any

import pytest
from pytest_django import Settings

from resources.caches import Snapshot
from resources.fetch import host_settings
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits, FetchJob, Waiter
from resources.fetch.task import TaskCall
from resources.fetch.worker import attempt
from resources.fetch.worker.job_run import JobRun
from retry import claim_state, stores
from retry.errors import StoreUnavailable
from retry.scripts import ScriptCall, Server
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, Peer, answer
from tests.hostile.test_answers import BIG, BROKEN, SLOW
from tests.hostile.test_bodies import BOMBS
from tests.support.claim_calls import begun, failed_with, queued
from tests.support.engine_runs import in_turn, leftovers, one_joins_late, run
from tests.support.fetch_queue import claimed, jobs
from tests.support.fetcher_threads import WAIT_SECONDS, at_rest, content, ended, fetching, stands, want
from tests.support.frontier import enqueue, job
from tests.support.origin import QUICK, TASK, page_work

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
        assert isinstance(await stands(work), claim_state.WorkDone)

    run(test)


def test_what_a_fetcher_cannot_finish_it_gives_back(monkeypatch: pytest.MonkeyPatch, servers: RedisServers) -> None:
    monkeypatch.setattr("resources.fetch.worker.engine.FETCHER_LEAVE_SECONDS", 0.05)

    async def test(origin: Origin) -> None:
        arrived = asyncio.Event()

        async def hang(peer: Peer) -> None:
            arrived.set()
            await peer.hang()

        work = page_work(origin.does("/a", in_turn(hang, answer(body=b"page"))))
        async with fetching():
            await want(work)
            await arrived.wait()
        assert isinstance(await stands(work), claim_state.ClaimTaken)
        async with fetching():
            assert isinstance(await ended(work), claim_state.WorkDone)
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
                    assert isinstance(await ended(work), claim_state.WorkDone)
        assert most == 3

    run(test)


def test_a_place_is_free_while_the_end_of_its_job_is_reported(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_IN_FLIGHT = 8

    async def test(origin: Origin) -> None:
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

    run(test)


def test_a_lane_that_opens_with_time_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.fetch.worker.engine.RECENT_PEAK_SECONDS", 1.0)

    async def test(origin: Origin) -> None:
        work = replace(page_work(origin.does("/a", answer(body=b"page"))), lane="fetch.large")
        async with fetching(4) as fetcher:
            for place in [fetcher.slots.take("fast"), fetcher.slots.take("fast")]:
                place.leave()
            held = [fetcher.slots.take("slow"), fetcher.slots.take("slow")]
            assert fetcher.slots.rooms.keys() == {"fast"}
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkDone)
            for place in held:
                place.leave()

    run(test)


def test_a_fetcher_survives_a_redis_that_is_away_for_a_while(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        async with fetching():
            servers.state.stop()
            await asyncio.sleep(0.2)
            servers.state.start()  # by this thread: it dies with its starter
            stores.BREAKERS["state"].succeeded()
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkDone)

    run(test)


def test_claims_whose_replies_are_lost_are_no_lapses(
    servers: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.FETCH_LEASE_SECONDS = 3600
    monkeypatch.setattr("resources.fetch.worker.engine.CLAIM_PAUSE_SECONDS", 0.01)
    execute_all, lost = stores.execute_all, list[ScriptCall]()

    async def losing(client: object, server: Server, calls: Sequence[ScriptCall]) -> object:
        replies = await execute_all(client, server, calls)  # type: ignore[arg-type]
        handed_out = [isinstance(reply, list) and reply[0] == b"claimed" for reply in replies]
        if any(handed_out) and len(lost) < 3:
            lost.extend(calls)
            raise StoreUnavailable("the connection is gone")
        return replies

    monkeypatch.setattr(stores, "execute_all", losing)

    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkDone)

    run(test)
    assert len(lost) >= 3
    said = [record.message for record in caplog.records if record.name == "tarry.fetching"]
    assert said == ["nothing can be claimed", "claims are answered again"]


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


def test_a_retry_whose_queueing_was_not_heard_of_is_no_failure(lost_report: list[ScriptCall]) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", in_turn(answer("500 Internal Server Error"), answer(body=b"page"))))
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkDone)
        assert origin.targets == ["/a", "/a"]

    run(test)
    assert lost_report


def test_who_joined_late_is_told_though_the_report_was_not_heard_of(lost_report: list[ScriptCall]) -> None:
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
            assert isinstance(await ended(work), claim_state.WorkDone)
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
            while not fetcher.slots.taken["slow"]:
                await asyncio.sleep(0.01)
            assert fetcher.slots.taken["fast"] == 0
            go.set()
            assert isinstance(await ended(first), claim_state.WorkDone)
            assert servers.state.client.keys("fetch:slow:*")
            settings.FETCH_SLOW_AFTER_SECONDS = 60
            await want(again)
            assert isinstance(await ended(again), claim_state.WorkDone)
        assert servers.state.client.keys("fetch:slow:*") == []

    run(test)


def test_a_job_that_fails_as_nobody_foresaw_is_logged_without_its_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("resources.fetch.worker.job_run.JobRun.carry_out", broken)

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


@pytest.mark.parametrize("path", ["/a", "/promised"])
def test_what_is_wanted_is_fetched_once_and_becomes_content(path: str, servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does(path, answer(body=b"page")))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, claim_state.WorkDone)
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
    monkeypatch.setattr(host_settings, "headers_snapshot", Snapshot("headers", dict, lambda: 3600))
    host_settings.headers_snapshot.get()
    QUICK.called_by.clear()

    async def test(origin: Origin) -> None:
        work = replace(page_work(origin.does("/a", answer(body=b"page" * 100))), task="tests.quick")
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkDone)

    run(test)
    assert [thread is not main_thread() for thread in QUICK.called_by] == threads


def test_nothing_is_planned_at_once_while_somebody_would_have_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_settings, "headers_snapshot", Snapshot("headers", dict, lambda: 3600))
    call = TaskCall("tests.quick", "work", 1, ("https://a.example.com/1", "content"))
    assert attempt.plan_request_at_once([call]) is None
    host_settings.headers_snapshot.get()
    plan = attempt.plan_request_at_once([call])
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
                assert isinstance(await ended(work), claim_state.WorkDone)
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
        assert isinstance(found, claim_state.WorkDone)
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
        assert isinstance(found, claim_state.WorkFailed)
        assert found.status == 504
        assert origin.targets == ["/a"] * times

    run(test)


def test_what_fails_for_good_is_a_failure_at_once() -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer("404 Not Found")))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, claim_state.WorkFailed)
        assert (found.status, found.detail) == (502, "answered 404")
        assert origin.targets == ["/a"]

    run(test)


def test_clients_do_not_wait_for_longer_than_they_do_for_a_server_that_asks_for_time(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer("429 Too Many Requests", "Retry-After: 300")))
        async with fetching():
            await want(work)
            found = await ended(work)
        assert isinstance(found, claim_state.WorkFailed)
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
            assert isinstance(await ended(work), claim_state.WorkDone)
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
        assert isinstance(found, claim_state.WorkFailed)
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
            assert isinstance(await ended(wanted), claim_state.WorkDone)
        assert origin.targets == ["/b"]

    run(test)


def test_work_that_this_version_cannot_read_waits_for_another(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
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

    run(test)


def test_the_robots_of_an_origin_are_asked_first_and_kept_to(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        origin.does("/robots.txt", answer(body=b"User-agent: *\nCrawl-delay: 1\n"))
        url = origin.does("/a", answer(body=b"page"))
        work = replace(page_work(url), task="tests.obedient")
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkDone)
        assert origin.targets == ["/robots.txt", "/a"]
        kept = stores.run_steps(queue.read_domain_record(url.split("/")[2]))[1]
        assert float(kept["crawl"]) == 1000

    run(test)


HOSTILE = SLOW | BIG | BROKEN | BOMBS
SLOTS = 20
MEMORY_BYTES = 4_000_000
"""For each place: no hostile body takes more where it is alone. The origins' own buffers are in it too."""


@pytest.fixture
def short_limits(settings: Settings) -> None:
    settings.FETCH_ATTEMPTS = 1
    settings.FETCH_CONNECT_SECONDS = 10
    settings.FETCH_HEAD_SECONDS = settings.FETCH_RATE_WINDOW_SECONDS = 0.5
    settings.FETCH_DEADLINE_SECONDS = settings.FETCH_SLOW_DEADLINE_SECONDS = 1.5
    settings.FETCH_MAX_BYTES = settings.FETCH_SLOW_MAX_BYTES = 1_000_000
    settings.FETCH_SPOOL_BYTES = 50_000


@pytest.mark.usefixtures("short_limits")
def test_a_fetcher_outlives_all_hostile_answers_in_little_memory(servers: RedisServers) -> None:
    async def test() -> None:
        async with AsyncExitStack() as origins:
            works = {}
            for number, (name, behaviour) in enumerate(HOSTILE.items(), 1):
                origin = await origins.enter_async_context(Origin(f"127.0.1.{number}"))
                works[name] = page_work(origin.does("/", behaviour), name)
            async with fetching(SLOTS) as fetcher:
                tracemalloc.start()
                await asyncio.gather(*map(want, works.values()))
                async with asyncio.timeout(WAIT_SECONDS):
                    while await asyncio.to_thread(claimed, servers):
                        await asyncio.sleep(0.05)
                assert tracemalloc.get_traced_memory()[1] < SLOTS * MEMORY_BYTES
                statuses = {name: failed_with(servers, work) for name, work in works.items()}
                assert set(statuses.values()) == {502, 504}
                assert {name for name, status in statuses.items() if status == 504} >= SLOW.keys()
                decent = page_work(origin.does("/decent", answer(body=b"decent")), "decent")
                await want(decent)
                assert isinstance(await ended(decent), claim_state.WorkDone)
                assert not fetcher.task.done()
                assert (fetcher.slots.taken["fast"], fetcher.slots.taken["slow"]) == (0, 0)
        stored = await content("content:decent")
        assert stored
        assert stored.body == b"decent"

    try:
        asyncio.run(test())
    finally:
        tracemalloc.stop()


def scripts_run(servers: RedisServers) -> int:
    """The number of script calls: all calls of fetchers are scripts."""
    counted = servers.state.client.info("commandstats")
    return int(counted["cmdstat_evalsha"]["calls"])


async def set_limits(scope: str, limits: DomainLimits) -> None:
    await asyncio.to_thread(stores.run_steps, queue.set_limits(scope, limits))


def test_a_fetcher_to_which_nothing_is_due_does_not_ask_again_and_again(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        async with fetching():
            await want(work)
            await ended(work)
            await set_limits("paused.example", DomainLimits(paused=True))
            await asyncio.to_thread(enqueue, job("1", "paused.example"), job("2", not_before_seconds=60))
            await at_rest()
            before = await asyncio.to_thread(scripts_run, servers)
            await asyncio.sleep(1)
            assert await asyncio.to_thread(scripts_run, servers) - before <= 3  # it may show that it is there

    run(test)


def test_a_pause_holds_at_once_and_so_does_its_end(settings: Settings) -> None:
    async def test(origin: Origin) -> None:
        came = asyncio.Event()

        async def behave(peer: Peer) -> None:
            came.set()
            await answer(body=b"page")(peer)

        url = origin.does("/a", behave)
        works = [page_work(f"{url}?{number}", str(number)) for number in range(60)]
        async with fetching(), asyncio.timeout(WAIT_SECONDS):
            await asyncio.gather(*map(want, works))
            await came.wait()
            scope = f"{origin.address}:{origin.port}"
            await set_limits(scope, DomainLimits(paused=True))
            before = len(origin.asked)
            await asyncio.sleep(0.5)  # 25 would have come
            assert len(origin.asked) - before <= settings.FETCH_IN_FLIGHT
            assert len(origin.asked) < len(works)
            came.clear()
            await set_limits(scope, DomainLimits())
            await asyncio.wait_for(came.wait(), 1)
            await asyncio.gather(*map(ended, works))

    run(test)
