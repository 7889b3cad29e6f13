"""Plans of requests, speeds of servers, and requests of a fetcher at every host on their route."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from resources.caches import Snapshot
from resources.fetch import host_settings
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import job_key
from resources.fetch.http.client import FetchClient
from resources.fetch.http.messages import FetchLimits, FetchRequest, Outcome, OutcomeTiming
from resources.fetch.task import TaskCall
from resources.fetch.worker import attempt, planner, robots
from resources.fetch.worker.attempt import ServerSpeeds
from resources.fetch.worker.planner import FetchPlan
from retry import claim_state, stores
from retry.contents import Prepared
from retry.work import Argument
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, answer, redirect
from tests.support.engine_runs import fetch, leftovers
from tests.support.fetcher_threads import WAIT_SECONDS, ended, fetching, want
from tests.support.frontier import record
from tests.support.origin import page_work

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]


URL = "https://a.example.com/1"


class Planning:
    """A task whose plan is given: it has something already, or another process has prepared its content."""

    obeys_robots = False

    def __init__(self, plan: FetchRequest | Mapping[str, Prepared]) -> None:
        self._plan = plan

    def fetch(self, *_: Argument) -> FetchRequest | Mapping[str, Prepared]:
        return self._plan


THERE = {"content:one": Prepared(b"there", "text/plain", 60, 600)}
SETTLED = Planning(THERE)
REVALIDATING = Planning(FetchRequest(URL, etag='"1"', last_modified="yesterday", headers={"Accept": "image/*"}))


@pytest.fixture(autouse=True)
def _known(pages: None, settings: Settings) -> None:
    settings.FETCH_TASKS = {
        **settings.FETCH_TASKS,
        "tests.revalidating": f"{__name__}.REVALIDATING",
        "tests.there": f"{__name__}.SETTLED",
    }


def call(task: str, name: str = "one") -> TaskCall:
    return TaskCall(task, name, 1, (URL, name))


def test_who_is_alone_asks_whether_it_has_changed() -> None:
    plan = planner.plan_request([call("tests.revalidating")])
    assert plan.fetch
    assert (plan.fetch.etag, plan.fetch.last_modified, plan.impossible) == ('"1"', "yesterday", {})
    assert plan.fetch.headers == {"Accept": "image/*", "X-Host": "a.example.com"}


def test_what_is_not_modified_for_one_may_be_new_to_another() -> None:
    fetch = planner.plan_request([call("tests.revalidating"), call("tests.page", "two")]).fetch
    assert fetch
    assert not fetch.is_conditional


def test_what_is_there_by_now_is_not_asked_for() -> None:
    plan = planner.plan_request([call("tests.there")])
    assert plan.fetch is None
    assert plan.done == {call("tests.there"): THERE}


def test_nothing_is_planned_at_once_while_somebody_would_have_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_settings, "headers_snapshot", Snapshot("headers", dict, lambda: 3600))
    call = TaskCall("tests.quick", "work", 1, ("https://a.example.com/1", "content"))
    assert planner.plan_request_at_once([call]) is None
    host_settings.headers_snapshot.get()
    plan = planner.plan_request_at_once([call])
    assert plan
    assert plan.fetch
    assert plan.fetch.url == "https://a.example.com/1"


def timing(wire_bytes: int, seconds: float, head_seconds: float | None = 1.0) -> OutcomeTiming:
    return OutcomeTiming(0, seconds, head_seconds, wire_bytes)


def test_speed_is_that_of_the_body_alone() -> None:
    known = ServerSpeeds()
    known.note("a", timing(1_000_000, 3))
    assert known.of("a") == pytest.approx(500_000)
    assert known.of("b") is None


@pytest.mark.parametrize("nothing", [timing(1000, 3), timing(1_000_000, 3, None), timing(1_000_000, 1)])
def test_small_bodies_and_failures_tell_nothing(nothing: OutcomeTiming) -> None:
    known = ServerSpeeds()
    known.note("a", nothing)
    assert known.of("a") is None


def test_later_bodies_count_more() -> None:
    known = ServerSpeeds()
    known.note("a", timing(1_000_000, 2))
    for _ in range(20):
        known.note("a", timing(1_000_000, 11))
    assert known.of("a") == pytest.approx(100_000, rel=0.05)


def test_no_more_domains_are_known_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "MAX_KNOWN_SPEEDS", 2)
    known = ServerSpeeds()
    for scope in ("a", "b", "c"):
        known.note(scope, timing(1_000_000, 2))
    assert [known.of(scope) is None for scope in ("a", "b", "c")] == [True, False, False]


async def test_how_fast_a_host_sends_is_learnt_from_what_it_sent(
    origin: Origin, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FETCH_DELAY_SECONDS = 0.001
    limits, fetch = list[float | None](), FetchClient.fetch

    async def noting(self: FetchClient, wanted: FetchRequest, *given: Any) -> Outcome:
        limits.append(wanted.limits.learnt_bytes_per_second)
        return await fetch(self, wanted, *given)

    monkeypatch.setattr(FetchClient, "fetch", noting)
    large, small = origin.does("/large", answer(body=b"x" * 1_000_000)), origin.does("/small", answer(body=b"x"))
    async with fetching():
        for number, url in enumerate((large, small)):
            await want(page_work(url, str(number)))
            assert isinstance(await ended(page_work(url, str(number))), claim_state.WorkDone)
    first, second = limits
    assert first is None
    assert second
    assert second > 100_000


async def test_a_redirect_waits_for_its_turn_at_the_host_that_it_leads_to(other: Origin, origin: Origin) -> None:
    other.does("/b", answer(body=b"page"))
    work = page_work(origin.does("/a", redirect(other.url("/b"))))
    await asyncio.to_thread(stores.run_steps, queue.block_domain(f"127.0.0.2:{other.port}", 1))
    async with fetching():
        began = asyncio.get_running_loop().time()
        await want(work)
        assert isinstance(await ended(work), claim_state.WorkDone)
        assert asyncio.get_running_loop().time() - began >= 0.9
    learnt = (await asyncio.to_thread(stores.run_steps, queue.read_domain_record(f"127.0.0.2:{other.port}")))[1]
    assert learnt["ok"] == "1"


async def test_a_redirect_sends_no_request_to_a_host_that_is_left_alone_and_neither_domain_is_blamed(
    other: Origin, origin: Origin, servers: RedisServers
) -> None:
    work = page_work(origin.does("/a", redirect(other.does("/b", answer(body=b"page")))))
    await asyncio.to_thread(stores.run_steps, queue.block_domain(f"127.0.0.2:{other.port}", 300))
    found = await fetch(work)
    assert isinstance(found, claim_state.WorkFailed)
    assert 290 < found.wait_seconds <= 300
    assert other.targets == []
    assert leftovers(servers) == []
    sender, alone = record(f"127.0.0.1:{origin.port}"), record(f"127.0.0.2:{other.port}")
    assert float(sender.get("block_until", 0)) == 0
    assert float(sender.get("throttled", 0)) == float(alone.get("throttled", 0)) == 0


async def test_a_request_that_is_late_is_not_sent_where_its_host_has_asked_for_time_since(
    origin: Origin, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "LATE_REQUEST_SECONDS", 0)
    plan = planner.plan_request_at_once

    def meanwhile(calls: list[TaskCall]) -> FetchPlan | None:
        stores.run_steps(queue.block_domain(f"127.0.0.1:{origin.port}", 15))
        return plan(calls)

    monkeypatch.setattr(planner, "plan_request_at_once", meanwhile)
    url = origin.does("/a", answer(body=b"page"))
    async with fetching():
        await want(page_work(url))
        async with asyncio.timeout(WAIT_SECONDS):
            while not servers.state.client.zcard("fetch:{0}:later"):
                await asyncio.sleep(0.01)
    assert origin.targets == []
    assert servers.state.client.hget(f"fetch:{{0}}:job:{job_key('tests.page', '', url)}", "attempts") == b"0"


async def test_robots_that_could_not_be_asked_for_in_time_are_asked_for_after_the_pause_and_kept_to(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "LATE_REQUEST_SECONDS", 0)
    build_request, blocked = robots.robots_request, list[str]()

    def meanwhile(url: str, limits: FetchLimits) -> FetchRequest:
        if not blocked:
            blocked.append(url)
            stores.run_steps(queue.block_domain(f"127.0.0.1:{origin.port}", 1))
        return build_request(url, limits)

    monkeypatch.setattr(robots, "robots_request", meanwhile)
    origin.does("/robots.txt", answer(body=b"User-agent: *\nCrawl-delay: 1\n"))
    work = replace(page_work(origin.does("/a", answer(body=b"page"))), task="tests.obedient")
    assert isinstance(await fetch(work), claim_state.WorkDone)
    assert blocked
    assert origin.targets == ["/robots.txt", "/a"]
    assert float(record(f"127.0.0.1:{origin.port}")["crawl"]) == 1000


async def test_a_refusal_behind_a_redirect_is_that_hosts_own(
    other: Origin, origin: Origin, servers: RedisServers
) -> None:
    refused = answer("429 Too Many Requests", "Retry-After: 300")
    work = page_work(origin.does("/a", redirect(other.does("/b", refused))))
    assert isinstance(await fetch(work), claim_state.WorkFailed)
    blocked = stores.run_steps(queue.read_domain_record(f"127.0.0.2:{other.port}"))
    assert float(blocked[1]["block_until"]) - blocked[0] > 290_000
    sender = stores.run_steps(queue.read_domain_record(f"127.0.0.1:{origin.port}"))
    assert float(sender[1].get("throttled", 0)) == 0
    assert float(sender[1].get("block_until", 0)) <= sender[0]


async def test_an_address_belongs_to_the_machine_that_has_it(settings: Settings) -> None:
    settings.FETCH_EGRESS = [
        "here=127.0.0.2",
        "elsewhere=192.0.2.1",
        "proxy=http://192.0.2.1:3128",
        "six=[2001:db8::1]",
    ]
    assert attempt.own_egresses() == ["here", "proxy"]
