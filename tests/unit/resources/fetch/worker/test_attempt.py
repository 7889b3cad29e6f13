"""Requests of a fetcher at every host that they come to."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from resources.fetching.errands import Errand
from resources.fetching.fetcher import asking, planning, robots
from resources.fetching.fetcher.planning import Plan
from resources.fetching.outcomes import Outcome
from resources.fetching.queues import frontier
from resources.fetching.queues.jobs import url_key
from resources.fetching.requests import Fetch, Limits
from resources.fetching.transport.client import Client
from retry import connections, standings
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, answer, redirect
from tests.resources.fetching.fetcher.running import leftovers, run
from tests.resources.fetching.fetchers import WAIT_SECONDS, ended, fetching, want
from tests.resources.fetching.pages import page_work

pytestmark = pytest.mark.usefixtures("pages")


def test_how_fast_a_host_sends_is_learnt_from_what_it_sent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.FETCH_DELAY_SECONDS = 0.001
    limits, fetch = list[float | None](), Client.fetch

    async def noting(self: Client, wanted: Fetch, *given: Any) -> Outcome:
        limits.append(wanted.limits.learnt_bytes_per_second)
        return await fetch(self, wanted, *given)

    monkeypatch.setattr(Client, "fetch", noting)

    async def test(origin: Origin) -> None:
        large, small = origin.does("/large", answer(body=b"x" * 1_000_000)), origin.does("/small", answer(body=b"x"))
        async with fetching():
            for number, url in enumerate((large, small)):
                await want(page_work(url, str(number)))
                assert isinstance(await ended(page_work(url, str(number))), standings.Done)

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
            await asyncio.to_thread(connections.run, frontier.block(f"127.0.0.2:{other.port}", 1))
            async with fetching():
                began = asyncio.get_running_loop().time()
                await want(work)
                assert isinstance(await ended(work), standings.Done)
                assert asyncio.get_running_loop().time() - began >= 0.9
            learnt = (await asyncio.to_thread(connections.run, frontier.look(f"127.0.0.2:{other.port}")))[1]
            assert learnt["ok"] == "1"

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


def test_a_redirect_to_a_host_that_rests_for_a_while_is_no_attempt(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            url = origin.does("/a", redirect(other.url("/b")))
            await asyncio.to_thread(connections.run, frontier.block(f"127.0.0.2:{other.port}", 15))
            async with fetching():
                await want(page_work(url))
                while not servers.state.client.zcard("fetch:later"):
                    await asyncio.sleep(0.01)
            assert servers.state.client.hget(f"fetch:job:{url_key(url)}", "attempts") == b"0"

    run(test)


def test_a_request_that_is_late_is_not_sent_where_its_host_has_asked_for_time_since(
    servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LATE_SECONDS", 0)
    plan = planning.plan_at_once

    async def test(origin: Origin) -> None:
        def meanwhile(errands: list[Errand]) -> Plan | None:
            connections.run(frontier.block(f"127.0.0.1:{origin.port}", 15))
            return plan(errands)

        monkeypatch.setattr(planning, "plan_at_once", meanwhile)
        url = origin.does("/a", answer(body=b"page"))
        async with fetching():
            await want(page_work(url))
            async with asyncio.timeout(WAIT_SECONDS):
                while not servers.state.client.zcard("fetch:later"):
                    await asyncio.sleep(0.01)
        assert origin.targets == []
        assert servers.state.client.hget(f"fetch:job:{url_key(url)}", "attempts") == b"0"

    run(test)


def test_robots_that_could_not_be_asked_for_in_time_are_asked_for_after_the_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "LATE_SECONDS", 0)
    fetch, blocked = robots.fetch, list[str]()

    async def test(origin: Origin) -> None:
        def meanwhile(url: str, limits: Limits) -> Fetch:
            if not blocked:
                blocked.append(url)
                connections.run(frontier.block(f"127.0.0.1:{origin.port}", 1))
            return fetch(url, limits)

        monkeypatch.setattr(robots, "fetch", meanwhile)
        origin.does("/robots.txt", answer(body=b"User-agent: *\n"))
        work = replace(page_work(origin.does("/a", answer(body=b"page"))), task="tests.obedient")
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), standings.Done)
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
                assert isinstance(await ended(work), standings.Failed)
            blocked = connections.run(frontier.look(f"127.0.0.2:{other.port}"))
            assert float(blocked[1]["block_until"]) - blocked[0] > 290_000
            sender = connections.run(frontier.look(f"127.0.0.1:{origin.port}"))
            assert float(sender[1].get("throttled", 0)) == 0
            assert float(sender[1].get("block_until", 0)) <= sender[0]

    run(test)
