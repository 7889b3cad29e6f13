"""The engine with a real Redis and a real origin: slots, sleep, full lanes, outages, and its end."""

import asyncio
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import cast
from unittest.mock import AsyncMock, Mock

import pytest
from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob, DomainLimits, FetchLane, NothingDue
from resources.fetch.worker.attempt import AttemptRunner
from resources.fetch.worker.engine import RECENT_PEAK_SECONDS, FetchEngine, Slot, SlotPool
from resources.fetch.worker.held_claims import RedisTrips
from resources.fetch.worker.job_run import JobRun
from resources.fetch.worker.timers import WakeListener
from retry import claim_state, claims, stores, worker
from retry.errors import StoreUnavailable
from retry.scripts import ScriptCall, Server
from tests.conftest import RedisServers
from tests.hostile.origin import Origin, Peer, answer, held_until
from tests.hostile.test_answers import BIG, BROKEN, SLOW
from tests.hostile.test_bodies import pack_bombs
from tests.support import fetch_queue
from tests.support.claim_calls import failed_with
from tests.support.engine_runs import fetch, in_turn
from tests.support.fetcher_threads import WAIT_SECONDS, at_rest, content, ended, fetching, stands, want
from tests.support.frontier import HOST, backlog, claim, claimed, enqueue, idle, job, report
from tests.support.origin import HANDED, page_work

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]
run = stores.run_steps


class Now:
    """A clock that tests move by hand."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def fill(slots: SlotPool, lane: FetchLane) -> Sequence[Slot]:
    """Takes a slot that is open for that lane."""
    taken = []
    while lane in slots.rooms:
        taken.append(slots.take(lane))
    return taken


def test_the_lanes_share_what_is_left() -> None:
    slots = SlotPool(10, Now())
    slow = [slots.take("slow") for _ in range(3)]
    for _ in range(6):
        slots.take("fast")
    assert slots.rooms == {"fast": 1, "slow": 1}
    slow[0].leave()
    assert slots.rooms == {"fast": 2, "slow": 2}
    fill(slots, "fast")
    assert slots.rooms == {}


def test_a_fifth_of_the_places_is_kept_for_what_is_fast() -> None:
    assert [len(fill(SlotPool(total, Now()), "slow")) for total in (2, 3, 20, 100)] == [1, 2, 16, 80]
    assert [len(fill(SlotPool(total, Now()), "fast")) for total in (2, 3, 20, 100)] == [2, 3, 20, 100]


def test_what_the_fast_lane_needed_of_late_is_kept_for_it() -> None:
    now = Now()
    slots = SlotPool(20, now)
    for place in [slots.take("fast") for _ in range(6)]:
        place.leave()
    now.seconds += RECENT_PEAK_SECONDS - 1
    assert slots.rooms == {"slow": 14, "fast": 20}
    now.seconds += 2 * RECENT_PEAK_SECONDS
    assert slots.rooms == {"slow": 16, "fast": 20}


def test_free_places_go_to_what_is_slow_first_until_it_has_half_of_them() -> None:
    slots = SlotPool(20, Now())
    waiting = deque(fill(slots, "fast"))
    for _ in range(40):  # neither lane ever runs out of jobs
        waiting.popleft().leave()
        first = next(iter(slots.rooms))
        place = slots.take(first)
        if first == "fast":
            waiting.append(place)
    assert (slots.taken["slow"], slots.taken["fast"]) == (10, 10)


def test_what_has_moved_leaves_the_fast_lane_its_fifth() -> None:
    slots = SlotPool(10, Now())
    for _ in range(20):
        slots.take("fast").move("slow")
    assert slots.rooms == {"fast": 2}


def test_a_place_is_left_once() -> None:
    slots = SlotPool(5, Now())
    first, _ = slots.take("fast"), slots.take("fast")
    first.leave()
    first.leave()
    assert slots.taken["fast"] == 1


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


async def test_a_new_job_wakes_who_sleeps() -> None:
    assert isinstance(claim(), NothingDue)
    assert await slept(20, lambda: enqueue(job("1"))) < 10
    assert isinstance(claim(), ClaimedJob)


async def test_what_an_admin_changes_wakes_who_sleeps() -> None:
    backlog()
    run(queue.set_limits(HOST, DomainLimits(paused=True)))
    idle()
    assert await slept(20, lambda: run(queue.set_limits(HOST, DomainLimits()))) < 10


async def test_a_request_that_ends_wakes_who_sleeps_when_its_host_was_full() -> None:
    run(queue.set_limits(HOST, DomainLimits(in_flight=1, delay_seconds=0.01)))
    backlog()
    held = claimed()
    idle()
    assert await slept(20, lambda: report(held)) < 10


async def test_what_is_due_no_earlier_wakes_nobody() -> None:
    idle()
    late = job("1", not_before_seconds=60)
    assert await slept(0.4, lambda: enqueue(late)) >= 0.4


def test_a_claim_says_when_something_is_due_on_redis_own_clock() -> None:
    enqueue(job("1"), job("2"))
    claimed()
    time.sleep(idle() + 0.002)
    claimed()


async def test_a_fetcher_that_is_told_to_end_finishes_what_is_in_flight(origin: Origin) -> None:
    arrived, go = asyncio.Event(), asyncio.Event()
    work = page_work(origin.does("/a", held_until(go, answer(body=b"page"), arrived)))
    async with fetching() as fetcher:
        await want(work)
        await arrived.wait()
        ending = asyncio.create_task(fetcher.end())
        go.set()
        await ending
    assert isinstance(await stands(work), claim_state.WorkDone)


async def test_what_a_fetcher_cannot_finish_it_gives_back(
    origin: Origin, monkeypatch: pytest.MonkeyPatch, servers: RedisServers
) -> None:
    monkeypatch.setattr("resources.fetch.worker.engine.FETCHER_LEAVE_SECONDS", 0.05)
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


async def test_there_are_never_more_in_flight_than_slots(origin: Origin, settings: Settings) -> None:
    settings.FETCH_DELAY_SECONDS = 0.001
    settings.FETCH_IN_FLIGHT = settings.FETCH_MAX_IN_FLIGHT = 7
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

    works = [page_work(f"{origin.does('/a', count)}?{number}", str(number)) for number in range(7)]
    for work in works:
        await want(work)
    async with fetching(slots=3):
        for work in works:
            assert isinstance(await ended(work), claim_state.WorkDone)
    assert most == 3


async def test_answers_that_are_being_stored_take_no_slots_up_to_the_number_of_slots(
    origin: Origin, settings: Settings
) -> None:
    settings.FETCH_TASKS = {**settings.FETCH_TASKS, "tests.handed": "tests.support.origin.HANDED"}
    settings.FETCH_DELAY_SECONDS = 0.001
    settings.FETCH_IN_FLIGHT = settings.FETCH_MAX_IN_FLIGHT = 20
    url = origin.does("/a", answer(body=b"page"))
    works = [replace(page_work(f"{url}?{number}", str(number)), task="tests.handed") for number in range(8)]
    for work in works:
        await want(work)
    async with fetching(slots=3) as fetcher, asyncio.timeout(WAIT_SECONDS):
        await until(lambda: len(HANDED.handed) == 6)  # three without a slot, three with one
        await asyncio.sleep(0.2)
        assert (len(HANDED.handed), len(origin.asked), fetcher.slots.handed_over) == (6, 6, 3)
        while len(origin.asked) < 8 or HANDED.handed:
            for stored in HANDED.handed:
                HANDED.store(stored)
            await asyncio.sleep(0.01)
        for work in works:
            assert isinstance(await ended(work), claim_state.WorkDone)
    assert (fetcher.slots.handed_over, fetcher.slots.taken) == (0, {"fast": 0, "slow": 0})


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


async def test_a_lane_that_opens_with_time_is_asked_for(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.fetch.worker.engine.RECENT_PEAK_SECONDS", 1.0)
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


async def test_claims_whose_replies_are_lost_are_no_lapses(
    origin: Origin,
    servers: RedisServers,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
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
    assert isinstance(await fetch(page_work(origin.does("/a", answer(body=b"page")))), claim_state.WorkDone)
    assert len(lost) >= 3
    said = [record.message for record in caplog.records if record.name == "tarry.fetching"]
    assert said == ["nothing can be claimed", "claims are answered again"]


async def test_jobs_are_kept_while_in_flight(origin: Origin, settings: Settings, servers: RedisServers) -> None:
    settings.FETCH_LEASE_SECONDS = settings.RETRY_LEASE_SECONDS = 3
    go = asyncio.Event()
    work = page_work(origin.does("/a", held_until(go, answer(body=b"page"))))
    async with fetching():
        await want(work)
        while not origin.targets:
            await asyncio.sleep(0.01)
        await asyncio.sleep(6)  # two leases
        assert servers.state.client.zcard("fetch:{0}:leases") == 1
        go.set()
        assert isinstance(await ended(work), claim_state.WorkDone)
    assert origin.targets == ["/a"]


async def test_a_job_that_fails_as_nobody_foresaw_is_logged_without_its_address(
    origin: Origin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = AsyncMock(side_effect=ZeroDivisionError)
    monkeypatch.setattr("resources.fetch.worker.job_run.JobRun.carry_out", broken)
    async with fetching():
        await want(page_work(origin.does("/a?token=secret", answer(body=b"page"))))
        async with asyncio.timeout(WAIT_SECONDS):
            while "a job failed" not in caplog.text:
                await asyncio.sleep(0.01)
    [record] = [record for record in caplog.records if record.message == "a job failed"]
    assert vars(record)["host"].startswith("127.0.0.1:")
    assert "secret" not in str(vars(record))


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
            for number, (name, behaviour) in enumerate((SLOW | BIG | BROKEN | pack_bombs()).items(), 1):
                origin = await origins.enter_async_context(Origin(f"127.0.1.{number}"))
                works[name] = page_work(origin.does("/", behaviour), name)
            async with fetching(SLOTS) as fetcher:
                tracemalloc.start()
                await asyncio.gather(*map(want, works.values()))
                async with asyncio.timeout(WAIT_SECONDS):
                    while await asyncio.to_thread(fetch_queue.claimed, servers):
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


async def test_a_fetcher_to_which_nothing_is_due_does_not_ask_again_and_again(
    origin: Origin, servers: RedisServers
) -> None:
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


async def test_what_a_killed_fetcher_had_is_asked_for_again_when_its_claim_has_lapsed(
    origin: Origin, servers: RedisServers
) -> None:
    work = page_work(origin.does("/a", answer(body=b"page")))
    token = await want(work)
    held = await asyncio.to_thread(claim, worker="dead")
    assert isinstance(held, ClaimedJob)
    await asyncio.to_thread(stores.execute_call, claims.start_call(work.key, token, "dead"))
    servers.state.client.zadd("fetch:{0}:leases", {held.key: 1})  # the job's lease lapses before the claim's
    async with fetching():
        while servers.state.client.zcard("fetch:{0}:later") == 0:
            await asyncio.sleep(0.01)
        assert isinstance(await stands(work), claim_state.ClaimTaken)
        servers.state.client.zadd("retry:{0}:leases", {work.key: 1})
        await asyncio.to_thread(worker.sweep_claims)
        servers.state.client.zadd("fetch:{0}:later", {held.key: 1})  # in a moment
        assert isinstance(await ended(work), claim_state.WorkDone)
    assert origin.targets == ["/a"]


async def test_a_fetcher_of_which_a_part_fails_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012  told to end, it says why it has ended already
        async with fetching() as fetcher:
            await asyncio.sleep(0.1)
            monkeypatch.setattr(queue, "claim_jobs", Mock(side_effect=ZeroDivisionError))
            fetcher.engine._waking.due_in(0)
            await asyncio.wait({fetcher.task}, timeout=10)
            assert isinstance(fetcher.task.exception(), ZeroDivisionError)


async def test_the_next_claim_is_sent_before_the_jobs_of_the_last_one_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their start keeps the event loop busy."""
    enqueue(job())
    found = claimed()
    events: list[str] = []
    has_started = asyncio.Event()

    class Trips:
        async def run(self, steps: Generator[object], *, alone: bool = False) -> object:
            steps.close()
            if not alone:
                return set()
            events.append("claim")
            if len(events) == 1:
                await asyncio.sleep(0.01)
                return [found]
            await has_started.wait()
            return [NothingDue(60)]

    async def start(*_: object) -> None:
        events.append("start")
        has_started.set()

    monkeypatch.setattr(JobRun, "carry_out", start)
    trips = cast(RedisTrips, Trips())
    engine = FetchEngine(trips, Mock(AttemptRunner), SlotPool(5), WakeListener(), worker="w", machine="m")
    running = asyncio.create_task(engine.run())
    async with asyncio.timeout(WAIT_SECONDS):
        await has_started.wait()
    engine.end()
    await running
    assert events[:3] == ["claim", "claim", "start"]
