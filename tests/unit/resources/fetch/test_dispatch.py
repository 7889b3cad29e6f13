"""Fetching as a lane of the deferral protocol: claims, promotion and sweeps end in one job."""

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import pytest
from pytest_django import Settings

from resources.fetch import dispatch
from resources.fetch.dispatch import OriginBusy, QueuedWork, UrlRefused, WorkEnqueued, WorkInHand
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import JobPriority, MoreWaiters
from retry import claim_state, claims, lanes, line, stores, worker
from retry.errors import PreparationError, QueueUnavailable
from retry.scripts import Reply, ScriptCall, Server
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import begin, begun, finish, look, make_due, queued
from tests.support.fetch_queue import claimed as claimed_works
from tests.support.fetch_queue import jobs
from tests.support.frontier import claimed, idle, next_claimed, report
from tests.support.frontier_clock import Clock
from tests.support.redis_servers import RedisServer

URL = "https://tiles.example.com/1/2/3.png"
WORK = Work("fetch:layer:1", "fetch:layer", "fetch.fast", "fetch.refresh", "resources.fetch_tile", (URL, "layer", 1))


@pytest.fixture(autouse=True)
def _lanes(settings: Settings) -> None:
    hooks = {name: settings.RETRY_LANES[WORK.lane][name] for name in ("publisher", "line")}
    settings.FETCH_TASKS = {
        WORK.task: "tests.support.origin.TASK",
        "tests.other": "tests.support.origin.TASK",
        "tests.reader": "tests.support.origin.OF_READER",
    }
    settings.RETRY_LANES = {name: {"limit": 100, "workers": 10, **hooks} for name in dispatch.LANE_MAPPINGS}


def publish(work: Work, token: int, lane: str) -> None:
    lanes.publish_work(work.task, work.key, token, work.arguments, lane)


def test_work_of_such_a_lane_becomes_a_job_that_holds_the_call(clock: Clock) -> None:
    token = begun(WORK).token
    publish(WORK, token, WORK.lane)
    held = claimed("fast")
    assert (held.url, held.priority) == (URL, JobPriority.INTERACTIVE)
    [waiter] = held.waiters
    assert (waiter.id, waiter.token) == (WORK.key, token)
    call = json.loads(waiter.payload)
    assert call == {"task": WORK.task, "work": WORK.key, "token": token, "arguments": [URL, "layer", 1]}


@pytest.mark.usefixtures("clock")
def test_the_place_of_such_work_is_that_of_its_job_at_the_server() -> None:
    elsewhere = replace(WORK, key="elsewhere", arguments=("https://b.example.com/", "layer", 1))
    later = replace(WORK, key="later", arguments=(f"{URL}?later", "layer", 1))
    for work in (WORK, elsewhere, later):
        publish(work, begun(work).token, work.lane)
    assert [stores.run_steps(line.find_place(work.key)) for work in (WORK, elsewhere, later)] == [0, 0, 1]


@pytest.mark.parametrize("lane", dispatch.LANE_MAPPINGS)
@pytest.mark.usefixtures("clock")
def test_large_and_slow_work_waits_in_a_lane_of_its_own_and_work_with_clients_comes_first(lane: str) -> None:
    publish(WORK, begun(WORK).token, lane)
    held = claimed()
    assert (held.lane == "slow") is (lane in {"fetch.slow", "fetch.large", "fetch.warm", "fetch.laggards"})
    assert (held.priority is JobPriority.INTERACTIVE) is (lane in {"fetch.fast", "fetch.slow"})
    assert (held.priority is JobPriority.FLAGGED) is (lane == "fetch.hub")


def test_promoted_work_moves_forward_and_is_not_doubled(clock: Clock) -> None:
    token = begun(WORK, refresh=True).token
    publish(WORK, token, WORK.refresh_lane)
    found = begin(WORK)
    assert isinstance(found, claim_state.ClaimPromoted)
    publish(WORK, found.token, WORK.lane)
    held = claimed("fast")
    assert (held.priority, len(held.waiters)) == (JobPriority.INTERACTIVE, 1)
    report(held)
    clock.pass_by(60)
    idle()


def some_works(number: int) -> list[Work]:
    return [replace(WORK, key=f"w:{place}", arguments=(f"{URL}?{place}", "layer", 1)) for place in range(number)]


def request(work: Work, client: str, *, is_popular: bool = False) -> claim_state.ClaimState:
    call = claims.begin_call(work, refresh=False, client=client, popular="1" if is_popular else "")
    found = claim_state.read_claim_state(stores.execute_call(call))
    if isinstance(found, claim_state.ClaimBegun | claim_state.ClaimPromoted):
        publish(work, found.token, WORK.lane)
    return found


def next_works(clock: Clock, number: int) -> list[str]:
    """The works of the next requests."""
    found = []
    for _ in range(number):
        held = next_claimed(clock)
        found.append(held.waiters[0].id)
        report(held)
    return found


def test_a_job_moves_forward_when_a_client_with_less_work_asks_for_it_too(clock: Clock) -> None:
    works = some_works(20)
    for work in works:
        request(work, "flood")
    assert isinstance(request(works[15], "b"), claim_state.ClaimPromoted)
    assert isinstance(request(works[15], "c"), claim_state.ClaimTaken)
    assert next_works(clock, 3) == ["w:0", "w:15", "w:1"]


def test_popular_content_and_all_other_take_turns_at_a_server(clock: Clock) -> None:
    works = some_works(8)
    for place, work in enumerate(works):
        request(work, f"client {place}", is_popular=place >= 5)
    assert [stores.run_steps(line.find_place(work.key)) for work in works] == [1, 3, 5, 6, 7, 0, 2, 4]
    turns = ["w:5", "w:0", "w:6", "w:1", "w:7", "w:2", "w:3", "w:4"]
    assert next_works(clock, len(turns)) == turns


def test_swept_work_joins_the_job_there_is(clock: Clock, servers: RedisServers) -> None:
    publish(WORK, begun(WORK).token, WORK.lane)
    make_due(servers, WORK)
    assert worker.sweep_claims() == 1
    report(claimed())
    clock.pass_by(60)
    idle()


def test_swept_work_whose_job_was_lost_is_queued_again(clock: Clock, servers: RedisServers) -> None:
    begun(WORK)
    make_due(servers, WORK)
    worker.sweep_claims()
    assert claimed().url == URL


def test_a_full_backlog_takes_no_work(clock: Clock, settings: Settings) -> None:
    settings.FETCH_DOMAIN_BACKLOG = 1
    publish(WORK, 1, WORK.lane)
    with pytest.raises(QueueUnavailable, match="Too much waits"):
        lanes.publish_work(WORK.task, "w", 1, ("https://tiles.example.com/another",), "fetch.fast")
    with pytest.raises(QueueUnavailable, match="No host") as refusal:
        lanes.publish_work(WORK.task, "w", 1, ("nonsense",), "fetch.fast")
    assert "nonsense" not in str(refusal.value)


def test_a_redis_that_is_down_takes_no_work(servers: RedisServers) -> None:
    servers.state.stop()
    with pytest.raises(QueueUnavailable, match="state"):
        publish(WORK, 1, WORK.lane)


def test_what_comes_from_a_domain_that_is_left_alone_for_more_than_a_moment_is_not_taken(clock: Clock) -> None:
    stores.run_steps(queue.block_domain("tiles.example.com", 300))
    token = begun(WORK).token
    with pytest.raises(QueueUnavailable, match="left alone") as caught:
        publish(WORK, token, WORK.lane)
    assert caught.value.retry_seconds == pytest.approx(300, abs=1)
    stores.run_steps(queue.unblock_domain("tiles.example.com"))
    idle()
    stores.run_steps(queue.block_domain("tiles.example.com", 20))
    publish(WORK, token, WORK.lane)
    assert 19 < idle() <= 20


def test_what_is_in_flight_already_is_joined_though_its_domain_is_left_alone(clock: Clock) -> None:
    publish(WORK, begun(WORK).token, WORK.lane)
    held = claimed()
    stores.run_steps(queue.block_domain("tiles.example.com", 300))
    other = replace(WORK, key="fetch:other:1")
    publish(other, begun(other).token, other.lane)
    found = report(held)
    assert isinstance(found, MoreWaiters)
    assert {waiter.id for waiter in found.waiters} == {WORK.key, other.key}


@pytest.mark.parametrize(
    "asks_again", [lambda works: request(works[2], "b"), lambda works: hand_over(*works, refresh=False)]
)
def test_work_that_waits_already_goes_on_waiting_while_its_domain_is_left_alone(
    clock: Clock, servers: RedisServers, asks_again: Callable[[list[Work]], object]
) -> None:
    works = some_works(3)
    for work in works:
        request(work, "a")
    stores.run_steps(queue.block_domain("tiles.example.com", 40))
    asks_again(works)
    for work in works:
        make_due(servers, work)
    worker.sweep_claims()
    stores.run_steps(queue.unblock_domain("tiles.example.com"))
    assert len(next_works(clock, 3)) == 3


def test_work_whose_clients_all_leave_before_its_domain_is_asked_again_is_told_when(
    clock: Clock, servers: RedisServers
) -> None:
    works = some_works(3)
    for work in works:
        request(work, "a")
    stores.run_steps(queue.block_domain("tiles.example.com", 3600))
    for work in works:
        make_due(servers, work)
    worker.sweep_claims()
    assert queued(servers, WORK.lane) == set()
    found = [look(work) for work in works]
    assert all(isinstance(one, claim_state.WorkFailed) and one.wait_seconds > 3500 for one in found)


def works_by_job(state: RedisServer, *works: Work) -> list[set[str]]:
    """Publishes the works; returns the keys of those that share a job, job by job."""
    for work in works:
        publish(work, begun(work).token, work.lane)
    jobs_waiters = map(state.client.hgetall, state.client.scan_iter("fetch:{0}:wanted:*"))
    found = ({key.decode() for key in waiters if isinstance(key, bytes)} for waiters in jobs_waiters)
    return sorted(found, key=sorted)


@pytest.mark.usefixtures("clock")
def test_works_of_two_tasks_share_no_request(servers: RedisServers) -> None:
    other = replace(WORK, key="other", task="tests.other")
    third = replace(WORK, key="third")
    assert works_by_job(servers.state, WORK, other, third) == [{WORK.key, third.key}, {other.key}]


@pytest.mark.usefixtures("clock")
def test_works_with_identities_of_their_own_share_no_request(servers: RedisServers) -> None:
    ann, again, bob = (
        Work(key, "page", "fetch.fast", "fetch.refresh", "tests.reader", (URL, reader))
        for key, reader in (("1", "ann"), ("2", "ann"), ("3", "bob"))
    )
    assert works_by_job(servers.state, ann, again, bob) == [{"1", "2"}, {"3"}]


@pytest.mark.usefixtures("clock")
def test_a_fragment_tells_nothing_of_a_job_and_is_cut_off(servers: RedisServers) -> None:
    named = replace(WORK, key="named", arguments=(f"{URL}#job", "layer", 1))
    assert works_by_job(servers.state, WORK, named) == [{WORK.key, named.key}]
    held = claimed("fast")
    assert held.url == URL
    assert {json.loads(waiter.payload)["arguments"][0] for waiter in held.waiters} == {URL}


def work_for(url: str) -> Work:
    return replace(WORK, key=f"fetch:{url}", arguments=(url, "layer", 1))


def hand_over(*works: Work, refresh: bool = True) -> list[dispatch.EnqueueOutcome]:
    """The outcomes, in the order of the works."""
    wanted = {each.key: QueuedWork(each) for each in works}
    return list(dispatch.claim_and_enqueue(wanted, refresh=refresh).values())


def fail_with_404(work: Work) -> None:
    error = PreparationError("There is none.", status=404, retry_seconds=60)
    stores.execute_call(claims.finish_failed_call(work.key, begun(work, refresh=True).token, error, luck=0))


def test_work_is_claimed_and_enqueued_in_its_order_with_what_its_jobs_should_be(clock: Clock) -> None:
    first, second = work_for(f"{URL}?1"), work_for("https://other.example/")
    wanted = {1: QueuedWork(first, 7.0), 2: QueuedWork(second, 3.0, JobPriority.FLAGGED)}
    found = dispatch.claim_and_enqueue(wanted, refresh=True)
    assert list(found) == [1, 2]
    assert all(isinstance(outcome, WorkEnqueued) for outcome in found.values())
    held = [claimed(), claimed()]
    assert [(job.url, job.priority) for job in held] == [
        ("https://other.example/", JobPriority.FLAGGED),
        (f"{URL}?1", JobPriority.ORDINARY),
    ]
    assert [waiter.token for job in held for waiter in job.waiters] == [token_of(second), token_of(first)]


def token_of(work: Work) -> int:
    found = look(work)
    assert isinstance(found, claim_state.ClaimTaken)
    return found.token


def test_each_outcome_is_told_and_only_enqueued_work_stays_claimed(
    clock: Clock, servers: RedisServers, settings: Settings
) -> None:
    stores.run_steps(queue.block_domain("resting.example", 300))
    settings.FETCH_DOMAIN_BACKLOG = 1
    publish(work_for("https://full.example/1"), 1, WORK.lane)
    resting, full, none = map(work_for, ("https://resting.example/", "https://full.example/2", "nonsense"))
    failed = work_for("https://failed.example/")
    fail_with_404(failed)
    [taken, again, left_alone, no_room, refused, record] = [
        *hand_over(WORK),
        *hand_over(WORK, resting, full, none, failed),
    ]
    assert isinstance(taken, WorkEnqueued)
    assert isinstance(again, WorkInHand)
    assert isinstance(left_alone, OriginBusy)
    assert left_alone.wait_seconds == pytest.approx(300, abs=1)
    assert isinstance(no_room, OriginBusy)
    assert refused == UrlRefused()
    assert isinstance(record, claim_state.WorkFailed)
    assert (record.status, record.detail) == (404, "There is none.")
    assert queued(servers, WORK.refresh_lane) == {WORK.key}
    assert claimed_works(servers) == 1


def test_a_full_lane_takes_no_work(clock: Clock, settings: Settings) -> None:
    settings.RETRY_LANES = {
        name: {**bounds, "limit": 1 if name == WORK.refresh_lane else 100}
        for name, bounds in settings.RETRY_LANES.items()
    }
    assert dispatch.read_lane_room(WORK.refresh_lane) == 1
    taken, full = hand_over(WORK, work_for("https://other.example/"))
    assert isinstance(taken, WorkEnqueued)
    assert isinstance(full, claim_state.LaneFull)
    assert dispatch.read_lane_room(WORK.refresh_lane) == 0


@pytest.mark.parametrize(("refresh", "outcome"), [(False, claim_state.WorkDone), (True, WorkEnqueued)])
def test_work_that_ended_a_moment_ago_is_only_refreshed(clock: Clock, refresh: bool, outcome: type[object]) -> None:
    finish(WORK, begun(WORK).token)
    [found] = hand_over(WORK, refresh=refresh)
    assert isinstance(found, outcome)


def test_rows_are_written_between_claims_and_jobs_and_can_drop_work(clock: Clock, servers: RedisServers) -> None:
    earlier, dropped = work_for("https://earlier.example/"), work_for("https://dropped.example/")
    begun(earlier, refresh=True)

    def write_rows(new: Collection[str], in_hand: Collection[str]) -> Collection[str]:
        assert (list(new), list(in_hand)) == ([WORK.key, dropped.key], [earlier.key])
        assert claimed_works(servers) == 3
        assert jobs(servers) == []
        return [dropped.key]

    wanted = {each.key: QueuedWork(each) for each in (WORK, dropped, earlier)}
    assert dropped.key not in dispatch.claim_and_enqueue(wanted, refresh=True, write_rows=write_rows)
    assert isinstance(look(dropped), claim_state.WorkUnknown)
    assert jobs(servers) == [URL]


def test_claimed_work_moves_up_where_that_is_wanted(clock: Clock) -> None:
    hand_over(WORK)
    first = dispatch.claim_and_enqueue({1: QueuedWork(WORK, priority=JobPriority.FLAGGED)}, refresh=True)
    moved = dispatch.claim_and_enqueue({1: QueuedWork(WORK, None, JobPriority.FLAGGED, moves_up=True)}, refresh=True)
    assert isinstance(first[1], WorkInHand)
    assert isinstance(moved[1], WorkInHand)
    held = claimed()
    assert (held.priority, len(held.waiters)) == (JobPriority.FLAGGED, 1)


def test_work_of_a_slower_lane_is_promoted_and_keeps_its_claim_though_its_origin_is_busy(clock: Clock) -> None:
    hand_over(WORK)
    [promoted] = hand_over(WORK, refresh=False)
    assert isinstance(promoted, WorkInHand)
    other = work_for("https://tiles.example.com/2")
    begun(other, refresh=True)
    stores.run_steps(queue.block_domain("tiles.example.com", 300))
    [busy] = hand_over(other, refresh=False)
    assert isinstance(busy, OriginBusy)
    assert isinstance(look(other), claim_state.ClaimTaken)
    stores.run_steps(queue.unblock_domain("tiles.example.com"))
    assert claimed("fast").priority == JobPriority.INTERACTIVE


def test_a_hundred_works_take_two_trips_to_redis(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    trips: list[int] = []
    execute = stores.execute_all_patiently

    def count(server: Server, calls: Sequence[ScriptCall]) -> list[Reply]:
        trips.append(len(calls))
        return execute(server, calls)

    monkeypatch.setattr(stores, "execute_all_patiently", count)
    hand_over(*(work_for(f"https://{place}.example/") for place in range(100)))
    assert [number for number in trips if number] == [100, 4]  # jobs go 32 in a call
