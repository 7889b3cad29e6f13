"""The failure of one job counts against nothing else: not the fetcher, its machine, or another host."""

import asyncio
from dataclasses import replace

import pytest
from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob
from retry import claim_state, claims, stores, worker
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, answer, redirect
from tests.support.engine_runs import run
from tests.support.fetcher_threads import ended, fetching, stands, want
from tests.support.frontier import claim
from tests.support.origin import page_work

pytestmark = pytest.mark.usefixtures("pages")


def record(host: str) -> dict[str, str]:
    return dict(stores.run_steps(queue.read_domain_record(host))[1])


def test_contents_that_cannot_be_stored_take_no_other_job_along() -> None:
    async def test(origin: Origin) -> None:
        bad = [
            page_work(origin.does(f"/unstorable{number}", answer(body=b"page")), f"bad{number}") for number in range(3)
        ]
        good = page_work(origin.does("/a", answer(body=b"page")), "good")
        async with fetching():
            for work in [*bad, good]:
                await want(work)
            *failed, stored = await asyncio.gather(*(ended(work) for work in [*bad, good]))
            assert isinstance(stored, claim_state.WorkDone)
            assert all(isinstance(each, claim_state.WorkFailed) for each in failed)

    run(test)


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "511 Network Authentication Required"])
def test_an_origin_cannot_say_that_our_network_is_away(status: str, servers: RedisServers, settings: Settings) -> None:
    settings.FETCH_ATTEMPTS = 1

    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(status)))
        async with fetching():
            await want(work)
            assert isinstance(await ended(work), claim_state.WorkFailed)

    run(test)
    assert servers.state.client.keys("fetch:network:*") == []


def test_who_redirects_to_a_host_that_is_left_alone_is_not_blamed() -> None:
    async def test(origin: Origin) -> None:
        async with Origin("127.0.0.2") as other:
            work = page_work(origin.does("/a", redirect(other.does("/b", answer(body=b"page")))))
            await asyncio.to_thread(stores.run_steps, queue.block_domain(f"127.0.0.2:{other.port}", 300))
            async with fetching():
                await want(work)
                assert isinstance(await ended(work), claim_state.WorkFailed)
            sender, alone = record(f"127.0.0.1:{origin.port}"), record(f"127.0.0.2:{other.port}")
            assert float(sender.get("block_until", 0)) == 0
            assert float(sender.get("throttled", 0)) == float(alone.get("throttled", 0)) == 0

    run(test)


def test_an_address_that_cannot_be_sent_says_nothing_of_its_host() -> None:
    async def test(origin: Origin) -> None:
        long = page_work(origin.url("/" + "a" * 2100), "long")
        robots = replace(page_work(origin.url("/" + "b" * 2100), "robots"), task="tests.obedient")
        async with fetching():
            for work in (long, robots):
                await want(work)
                assert isinstance(await ended(work), claim_state.WorkFailed)
        assert float(record(f"127.0.0.1:{origin.port}").get("failures", 0)) == 0
        assert origin.targets == []

    run(test)


def test_what_a_killed_fetcher_had_is_asked_for_again_when_its_claim_has_lapsed(servers: RedisServers) -> None:
    async def test(origin: Origin) -> None:
        work = page_work(origin.does("/a", answer(body=b"page")))
        token = await want(work)
        held = await asyncio.to_thread(claim, worker="dead")
        assert isinstance(held, ClaimedJob)
        await asyncio.to_thread(stores.execute_call, claims.start_call(work.key, token, "dead"))
        servers.state.client.zadd("fetch:leases", {held.key: 1})  # the job's lease lapses before the claim's
        async with fetching():
            while servers.state.client.zcard("fetch:later") == 0:
                await asyncio.sleep(0.01)
            assert isinstance(await stands(work), claim_state.ClaimTaken)
            servers.state.client.zadd("retry:leases", {work.key: 1})
            await asyncio.to_thread(worker.sweep_claims)
            servers.state.client.zadd("fetch:later", {held.key: 1})  # in a moment
            assert isinstance(await ended(work), claim_state.WorkDone)
        assert origin.targets == ["/a"]

    run(test)


def test_a_fetcher_of_which_a_part_fails_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise ZeroDivisionError

    async def test(_: Origin) -> None:
        async with fetching() as fetcher:
            await asyncio.sleep(0.1)
            monkeypatch.setattr(queue, "claim_jobs", fail)
            fetcher.engine._waking.due_in(0)
            await asyncio.wait({fetcher.task}, timeout=10)
            assert isinstance(fetcher.task.exception(), ZeroDivisionError)

    with pytest.raises(ZeroDivisionError):  # told to end, it says why it has ended already
        run(test)
