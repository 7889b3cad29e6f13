"""Requests of a fetcher at every host that they come to."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import job_key
from resources.fetch.http.client import FetchClient
from resources.fetch.http.messages import FetchLimits, FetchRequest, Outcome
from resources.fetch.task import TaskCall
from resources.fetch.worker import attempt, robots
from resources.fetch.worker.attempt import FetchPlan
from retry import claim_state, stores
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, answer, redirect
from tests.support.engine_runs import leftovers, run
from tests.support.fetcher_threads import WAIT_SECONDS, ended, fetching, want
from tests.support.origin import page_work

pytestmark = pytest.mark.usefixtures("pages")


def test_how_fast_a_host_sends_is_learnt_from_what_it_sent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.FETCH_DELAY_SECONDS = 0.001
    limits, fetch = list[float | None](), FetchClient.fetch

    async def noting(self: FetchClient, wanted: FetchRequest, *given: Any) -> Outcome:
        limits.append(wanted.limits.learnt_bytes_per_second)
        return await fetch(self, wanted, *given)

    monkeypatch.setattr(FetchClient, "fetch", noting)

    async def test(origin: Origin) -> None:
        large, small = origin.does("/large", answer(body=b"x" * 1_000_000)), origin.does("/small", answer(body=b"x"))
        async with fetching():
            for number, url in enumerate((large, small)):
                await want(page_work(url, str(number)))
                assert isinstance(await ended(page_work(url, str(number))), claim_state.WorkDone)

    run(test)
    first, second = limits
    assert first is None
    assert second
    assert second > 100_000


def test_a_redirect_waits_for_its_turn_at_the_host_that_it_leads_to() -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
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

    run(test)


def test_a_redirect_does_not_ask_a_host_that_is_left_alone(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            work = page_work(origin.does("/a", redirect(other.does("/b", answer(body=b"page")))))
            await asyncio.to_thread(stores.run_steps, queue.block_domain(f"127.0.0.2:{other.port}", 300))
            async with fetching():
                await want(work)
                found = await ended(work)
            assert isinstance(found, claim_state.WorkFailed)
            assert 290 < found.wait_seconds <= 300
            assert other.targets == []

    run(test)
    assert leftovers(servers) == []


def test_a_redirect_to_a_host_that_rests_for_a_while_is_no_attempt(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            url = origin.does("/a", redirect(other.url("/b")))
            await asyncio.to_thread(stores.run_steps, queue.block_domain(f"127.0.0.2:{other.port}", 15))
            async with fetching():
                await want(page_work(url))
                while not servers.state.client.zcard("fetch:later"):
                    await asyncio.sleep(0.01)
            assert servers.state.client.hget(f"fetch:job:{job_key(url)}", "attempts") == b"0"

    run(test)


def test_a_request_that_is_late_is_not_sent_where_its_host_has_asked_for_time_since(
    servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "LATE_REQUEST_SECONDS", 0)
    plan = attempt.plan_request_at_once

    async def test(origin: Origin) -> None:
        def meanwhile(calls: list[TaskCall]) -> FetchPlan | None:
            stores.run_steps(queue.block_domain(f"127.0.0.1:{origin.port}", 15))
            return plan(calls)

        monkeypatch.setattr(attempt, "plan_request_at_once", meanwhile)
        url = origin.does("/a", answer(body=b"page"))
        async with fetching():
            await want(page_work(url))
            async with asyncio.timeout(WAIT_SECONDS):
                while not servers.state.client.zcard("fetch:later"):
                    await asyncio.sleep(0.01)
        assert origin.targets == []
        assert servers.state.client.hget(f"fetch:job:{job_key(url)}", "attempts") == b"0"

    run(test)


def test_robots_that_could_not_be_asked_for_in_time_are_asked_for_after_the_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempt, "LATE_REQUEST_SECONDS", 0)
    fetch, blocked = robots.robots_request, list[str]()

    async def test(origin: Origin) -> None:
        def meanwhile(url: str, limits: FetchLimits) -> FetchRequest:
            if not blocked:
                blocked.append(url)
                stores.run_steps(queue.block_domain(f"127.0.0.1:{origin.port}", 1))
            return fetch(url, limits)

        monkeypatch.setattr(robots, "robots_request", meanwhile)
        origin.does("/robots.txt", answer(body=b"User-agent: *\n"))
        work = replace(page_work(origin.does("/a", answer(body=b"page"))), task="tests.obedient")
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkDone)
        assert blocked
        assert origin.targets == ["/robots.txt", "/a"]

    run(test)


def test_a_refusal_behind_a_redirect_is_that_hosts_own(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            refused = answer("429 Too Many Requests", "Retry-After: 300")
            work = page_work(origin.does("/a", redirect(other.does("/b", refused))))
            async with fetching():
                await want(work)
                assert isinstance(await ended(work), claim_state.WorkFailed)
            blocked = stores.run_steps(queue.read_domain_record(f"127.0.0.2:{other.port}"))
            assert float(blocked[1]["block_until"]) - blocked[0] > 290_000
            sender = stores.run_steps(queue.read_domain_record(f"127.0.0.1:{origin.port}"))
            assert float(sender[1].get("throttled", 0)) == 0
            assert float(sender[1].get("block_until", 0)) <= sender[0]

    run(test)
