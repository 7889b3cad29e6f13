"""Sleeping fetchers: woken by earlier events than they knew of, and by nothing else."""

import asyncio
import time
from contextlib import suppress

import pytest

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob, DomainLimits, NothingDue
from resources.fetch.worker.engine import WakeListener
from retry import stores
from tests.conftest import RedisServers
from tests.support.frontier import HOST, backlog, claim, claimed, enqueue, idle, job, report

run = stores.run_steps


async def slept(asleep_seconds: float, *acts: object) -> float:
    """The sleep of a fetcher that claimed in vain, when this was done once it listened."""
    waking = WakeListener()
    listening = asyncio.create_task(waking.listen_forever())
    try:
        await waking.sleep(20)  # it looks once more as soon as it listens
        waking.expect()
        began = time.monotonic()
        sleeping = asyncio.create_task(waking.sleep(asleep_seconds))
        await asyncio.sleep(0.05)
        for act in acts:
            await asyncio.to_thread(act)  # type: ignore[arg-type]
        await sleeping
        return time.monotonic() - began
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


@pytest.mark.usefixtures("servers")
def test_a_new_job_wakes_who_sleeps() -> None:
    found = claim()
    assert isinstance(found, NothingDue)
    assert asyncio.run(slept(20, lambda: enqueue(job("1")))) < 10
    assert isinstance(claim(), ClaimedJob)


@pytest.mark.usefixtures("servers")
def test_what_an_admin_changes_wakes_who_sleeps() -> None:
    backlog()
    run(queue.set_limits(HOST, DomainLimits(paused=True)))
    idle()
    assert asyncio.run(slept(20, lambda: run(queue.set_limits(HOST, DomainLimits())))) < 10


@pytest.mark.usefixtures("servers")
def test_a_request_that_ends_wakes_who_sleeps_when_its_host_was_full() -> None:
    run(queue.set_limits(HOST, DomainLimits(in_flight=1, delay_seconds=0.01)))
    backlog()
    held = claimed()
    idle()
    assert asyncio.run(slept(20, lambda: report(held))) < 10


@pytest.mark.usefixtures("servers")
def test_what_is_due_no_earlier_wakes_nobody() -> None:
    idle()
    late = job("1", not_before_seconds=60)
    assert asyncio.run(slept(0.4, lambda: enqueue(late))) >= 0.4


def test_nothing_is_published_when_nobody_sleeps(servers: RedisServers) -> None:
    with servers.state.client.pubsub() as subscription:  # type: ignore[no-untyped-call]
        subscription.subscribe(queue.WAKE_CHANNEL)
        assert subscription.get_message(timeout=2) is not None
        enqueue(job("1"))
        assert subscription.get_message(timeout=0.1) is None
        report(claimed())
        idle()
        enqueue(job("1", "b.example.com"))
        assert (subscription.get_message(timeout=2) or {}).get("data") == b"0"


@pytest.mark.usefixtures("servers")
def test_a_claim_says_when_something_is_due_on_redis_own_clock() -> None:
    enqueue(job("1"), job("2"))
    claimed()
    time.sleep(idle() + 0.002)
    claimed()
