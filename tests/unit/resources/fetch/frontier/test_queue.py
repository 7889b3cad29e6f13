"""The frontier: order, bounds and time."""

from collections import Counter

import pytest
from pytest_django import Settings

from resources.fetch.frontier import jobs, queue
from resources.fetch.frontier.queue import RetryJob
from retry import stores
from tests.conftest import RedisServers
from tests.support.frontier import HOST, OK, UNSENT, claim, claimed, dead_job, enqueue, idle, job, record, report
from tests.support.frontier_clock import Clock

run = stores.run_steps


def urls(number: int, clock: Clock) -> list[str]:
    """The next so many, each claimed and done as soon as it is due."""
    found = []
    for _ in range(number):
        while isinstance(nothing := claim(), jobs.NothingDue):
            clock.pass_by(nothing.wait_seconds)
        assert isinstance(nothing, jobs.ClaimedJob)
        report(nothing)
        found.append(nothing.url.removeprefix("https://"))
    return found


def test_requests_to_one_host_keep_their_distance_which_differs_by_a_tenth_at_the_most(clock: Clock) -> None:
    run(queue.set_limits(HOST, jobs.DomainLimits(delay_seconds=1)))
    enqueue(*(job(str(number)) for number in range(20)))
    waits = []
    for _ in range(20):
        report(claimed())
        waits.append(idle())
        clock.pass_by(waits[-1] - 0.01)
        idle()
        clock.pass_by(0.01)
    assert 0.9 <= min(waits[:-1]) < 0.95
    assert 1.05 < max(waits[:-1]) <= 1.101


def test_first_in_is_first_out(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(5)))
    assert urls(5, clock) == [f"{HOST}/{number}" for number in range(5)]


def test_among_equals_the_host_with_the_most_left_comes_first(clock: Clock) -> None:
    enqueue(job("1", expected_seconds=3))
    enqueue(*(job(str(number), "b.example.com", expected_seconds=2) for number in range(3)))
    enqueue(job("1", "c.example.com", expected_seconds=5))
    assert [claimed().host for _ in range(3)] == ["b.example.com", "c.example.com", HOST]


def test_a_host_that_does_not_decide_when_all_is_done_waits_for_shorter_jobs(clock: Clock, settings: Settings) -> None:
    settings.FETCH_SLOTS = 2
    enqueue(job("long", "long.example.com", expected_seconds=3), job("1", "b.example.com", expected_seconds=2))
    enqueue(*(job("1", f"{number}.example.com", expected_seconds=1) for number in range(20)))
    found = [claimed().host.removesuffix(".example.com") for _ in range(22)]
    assert (found.index("long"), found.index("b")) == (10, 11)  # the rest only just fills the slots then


def test_a_job_waits_for_shorter_ones_so_many_times_its_length_at_the_most(clock: Clock, settings: Settings) -> None:
    settings.FETCH_SLOTS = 2
    idle()
    enqueue(job("long", "long.example.com", expected_seconds=3))
    for minutes in range(3):
        enqueue(*(job("1", f"{minutes}-{number}.example.com", expected_seconds=1) for number in range(30)))
        clock.pass_by(70)
    assert [claimed().host for _ in range(61)].index("long.example.com") == 60


def test_a_url_that_expires_soon_comes_first_and_the_soonest_of_them(clock: Clock) -> None:
    enqueue(job("1"), job("2", expires_at=clock.unix + 600), job("3", expires_at=clock.unix + 300))
    enqueue(job("4", expires_at=clock.unix + 86_400))
    assert urls(4, clock) == [f"{HOST}/{name}" for name in "3214"]


def test_an_expired_url_fails_without_a_request(clock: Clock) -> None:
    enqueue(job("1", expires_at=clock.unix + 10))
    run(queue.block_domain(HOST, 3600))
    clock.pass_by(9)
    assert idle() == pytest.approx(1, abs=0.01)
    clock.pass_by(1.001)
    found = dead_job()
    assert (found.why, found.job.url) == ("expired", f"https://{HOST}/1")
    assert run(queue.finish_job(found.job)) == jobs.JobEnded()
    assert "in_flight" not in record()


def test_a_job_that_is_to_wait_is_not_claimed_before(clock: Clock) -> None:
    enqueue(job("1", not_before_seconds=30))
    assert idle() == pytest.approx(30, abs=0.01)
    clock.pass_by(30.001)
    claimed()


def test_who_waits_for_a_queued_job_moves_it_forward(clock: Clock) -> None:
    enqueue(job("1"), job("2"), job("2", priority=jobs.JobPriority.INTERACTIVE))
    assert urls(2, clock) == [f"{HOST}/2", f"{HOST}/1"]


def test_a_later_request_never_moves_a_job_back(clock: Clock) -> None:
    enqueue(job("1", priority=jobs.JobPriority.FLAGGED), job("2"), job("1"))
    assert urls(1, clock) == [f"{HOST}/1"]


def test_a_domains_backlog_is_bounded_and_its_end_is_kept_for_who_waits(clock: Clock, settings: Settings) -> None:
    settings.FETCH_DOMAIN_BACKLOG = 10
    for number in range(9):
        assert isinstance(enqueue(job(str(number))), jobs.JobEnqueued)
    assert enqueue(job("9")) == jobs.BacklogFull(4.5)
    assert isinstance(enqueue(job("9", priority=jobs.JobPriority.INTERACTIVE)), jobs.JobEnqueued)
    assert isinstance(enqueue(job("10", priority=jobs.JobPriority.INTERACTIVE)), jobs.BacklogFull)
    assert isinstance(enqueue(job("1", "b.example.com")), jobs.JobEnqueued)
    assert isinstance(enqueue(job("0")), jobs.JobJoined)


def test_the_backlog_of_all_domains_is_bounded(clock: Clock, settings: Settings) -> None:
    settings.FETCH_BACKLOG = 10
    found = [enqueue(job("1", f"{number}.example.com")) for number in range(12)]
    assert [isinstance(one, jobs.JobEnqueued) for one in found] == [True] * 9 + [False] * 3


def test_slow_requests_leave_room_for_a_fast_one(clock: Clock) -> None:
    enqueue(*(job(str(number), lane="slow") for number in range(3)))
    claimed("slow")
    clock.pass_by(5)
    idle("slow")
    enqueue(job("fast"))
    assert claimed("fast").url.endswith("/fast")


def test_a_request_that_turns_out_slow_gives_the_fast_lanes_room_back(clock: Clock) -> None:
    enqueue(*(job(str(number), lane="slow") for number in range(2)), job("fast"))
    moved = claimed("fast")
    assert run(queue.move_job(moved.key, "slow"))
    clock.pass_by(5)
    idle("slow")
    report(moved)
    claimed("slow")


def test_a_job_that_was_found_slow_stays_so(clock: Clock) -> None:
    enqueue(job("1"))
    assert run(queue.move_job(job("1").key, "slow"))
    enqueue(job("1", priority=jobs.JobPriority.INTERACTIVE))
    idle("fast")
    assert claimed("slow").priority is jobs.JobPriority.INTERACTIVE


def test_a_request_that_was_not_sent_gives_its_turn_back_and_is_no_attempt(clock: Clock) -> None:
    enqueue(job("1"), job("2"))
    assert report(claimed(), UNSENT, RetryJob(5)) == jobs.JobRequeued(5)
    report(claimed())
    clock.pass_by(5.1)
    assert claimed().attempts == 0


def test_a_retry_waits_and_keeps_count(clock: Clock) -> None:
    enqueue(job("1"))
    assert report(claimed(), OK, RetryJob(20)) == jobs.JobRequeued(20)
    clock.pass_by(19)
    idle()
    clock.pass_by(1.1)
    assert claimed().attempts == 1


def test_a_removed_job_is_not_claimed(clock: Clock) -> None:
    enqueue(job("1"), job("2", not_before_seconds=5), job("3", expires_at=clock.unix + 9))
    assert [run(queue.withdraw_waiter(job(name).key)) for name in "1231"] == ["removed"] * 3 + ["unknown"]
    clock.pass_by(60)
    assert idle() == 60
    held_by_others = job("4", waiter=jobs.Waiter("a"))
    enqueue(held_by_others, job("4", waiter=jobs.Waiter("b")))
    assert run(queue.withdraw_waiter(held_by_others.key, "a")) == "kept"
    assert claimed().waiters == (jobs.Waiter("b"),)
    assert run(queue.withdraw_waiter(held_by_others.key)) == "in_flight"


def test_jobs_that_are_done_leave_only_what_was_learnt(clock: Clock, servers: RedisServers) -> None:
    enqueue(job("1", expires_at=clock.unix + 600), job("2", lane="slow"), job("3", not_before_seconds=1))
    for _ in range(3):
        clock.pass_by(2)
        report(claimed())
    left = set(servers.state.client.keys("fetch:*"))
    assert left == {
        *(f"fetch:{{0}}:domain:{HOST}".encode(), b"fetch:{0}:domains"),
        *(b"fetch:{0}:clock", b"fetch:{0}:queued", b"fetch:{0}:token"),
        *(b"fetch:{0}:fetchers", b"fetch:{0}:machines", b"fetch:{0}:owners", b"fetch:{0}:owned", b"fetch:{0}:spread"),
    }
    assert servers.state.client.get("fetch:{0}:queued") == b"0"


def test_what_was_learnt_is_kept_for_a_month_and_what_an_admin_has_set_for_good(
    clock: Clock, servers: RedisServers
) -> None:
    name, almost_a_month = f"fetch:{{0}}:domain:{HOST}", 29 * 86400
    enqueue(job("1"), job("2"))
    claimed()
    assert servers.state.client.ttl(name) > almost_a_month
    run(queue.set_limits(HOST, jobs.DomainLimits(in_flight=2)))
    assert servers.state.client.ttl(name) == -1
    run(queue.set_limits(HOST, jobs.DomainLimits()))
    assert servers.state.client.ttl(name) > almost_a_month
    servers.state.client.expire(name, 1000)
    clock.pass_by(3600)
    claimed()
    assert servers.state.client.ttl(name) > almost_a_month


def test_those_that_became_due_come_in_turn_with_those_that_were(clock: Clock) -> None:
    enqueue(*(job(str(number), f"{host}.example.com") for host in "abc" for number in range(ord(host) - 96)))
    assert claimed().host == "c.example.com"  # the most is left there; the others stay due
    clock.pass_by(1)
    enqueue(job("4", "c.example.com"), job("5", "c.example.com"), job("6", "c.example.com"))
    found = run(queue.claim_jobs("w", "m", 3, {"fast": 3}))
    assert [one.host for one in found if isinstance(one, jobs.ClaimedJob)] == [f"{host}.example.com" for host in "cba"]
    assert isinstance(claim(), jobs.NothingDue)


def claim_some(most: int = 10, **rooms: int) -> list[jobs.ClaimedJob | jobs.DeadJob | jobs.NothingDue]:
    lanes: dict[jobs.FetchLane, int] = {"fast": rooms.get("fast", 10), "slow": rooms.get("slow", 10)}
    return stores.run_steps(queue.claim_jobs("w", "m", most, lanes))


def test_a_call_claims_jobs_of_as_many_domains_as_it_may() -> None:
    enqueue(*(job("1", f"{number}.example.com") for number in range(60)))
    assert len(names(claim_some(48, fast=48))) == 48


def names(found: list[jobs.ClaimedJob | jobs.DeadJob | jobs.NothingDue]) -> list[str]:
    return [one.url.rpartition("/")[2] for one in found if isinstance(one, jobs.ClaimedJob)]


def test_all_that_is_due_is_handed_out_and_then_nothing_is(clock: Clock) -> None:
    enqueue(job("ordinary", "a.example.com", expected_seconds=99))
    enqueue(job("flagged", "b.example.com", priority=jobs.JobPriority.FLAGGED))
    enqueue(job("first", "c.example.com", priority=jobs.JobPriority.INTERACTIVE), job("second", "c.example.com"))
    found = claim_some()
    assert names(found) == ["first", "flagged", "ordinary"]
    assert isinstance(found[-1], jobs.NothingDue)
    assert 0.4 < found[-1].wait_seconds < 0.6  # the turn of the second
    assert len({one.token for one in found if isinstance(one, jobs.ClaimedJob)}) == 3
    clock.pass_by(0.6)
    assert names(claim_some()) == ["second"]


def test_no_more_are_handed_out_than_asked_for_and_nothing_is_said_of_the_rest(clock: Clock) -> None:
    enqueue(*(job(str(number), f"{number}.example.com") for number in range(4)))
    found = claim_some(most=3)
    assert len(names(found)) == len(found) == 3
    assert len(names(claim_some(most=3))) == 1


@pytest.mark.parametrize(("room", "handed_out"), [(1, 1), (2, 2), (5, 3)])
def test_a_lane_gives_as_many_as_there_is_room_in_it(clock: Clock, room: int, handed_out: int) -> None:
    enqueue(*(job(f"slow-{number}", f"{number}.example.com", lane="slow") for number in range(3)))
    enqueue(job("fast", "fast.example.com"))
    found = claim_some(slow=room)
    assert "fast" in names(found)
    assert sum(url.startswith("slow") for url in names(found)) == handed_out
    assert isinstance(found[-1], jobs.NothingDue) is (room > handed_out)  # the due jobs of a full lane are unknown


def test_what_is_to_fail_comes_first_and_takes_room_too(clock: Clock) -> None:
    enqueue(*(job(f"old-{number}", expires_at=clock.unix + 1) for number in range(2)))
    clock.pass_by(2)
    enqueue(job("new", "b.example.com"))
    assert [one.why for one in claim_some(most=2) if isinstance(one, jobs.DeadJob)] == ["expired", "expired"]
    assert names(claim_some()) == ["new"]


@pytest.mark.parametrize("lane", ["fast", "slow"])
def test_a_domain_whose_time_has_come_gives_all_that_it_has_room_for(clock: Clock, lane: jobs.FetchLane) -> None:
    stores.run_steps(queue.set_limits(HOST, jobs.DomainLimits(delay_seconds=0, in_flight=8)))
    stores.run_steps(queue.block_domain(HOST, 5))
    enqueue(*(job(priority.name, priority=priority, lane=lane) for priority in jobs.JobPriority))
    assert idle() == 5
    clock.pass_by(5)
    assert names(claim_some()) == ["INTERACTIVE", "FLAGGED", "ORDINARY"]


def test_a_domain_is_still_due_after_a_job_that_has_just_expired(clock: Clock) -> None:
    stores.run_steps(queue.set_limits(HOST, jobs.DomainLimits(delay_seconds=0, in_flight=8)))
    stores.run_steps(queue.block_domain(HOST, 5))
    enqueue(job("other", "b.example.com"), job("now"))
    enqueue(job("old", priority=jobs.JobPriority.FLAGGED, expires_at=clock.unix + 5))
    enqueue(*(job("older", f"{number}.example.com", expires_at=clock.unix + 4) for number in range(16)))
    clock.pass_by(5)
    found = claim_some(most=40, fast=40)  # which reaps the 16 that have expired first
    assert [one.job.host for one in found if isinstance(one, jobs.DeadJob)].count(HOST) == 0
    assert names(found) == ["other", "now"]
    assert found[-1] == jobs.NothingDue(0)
    [failed, *_] = claim_some()
    assert isinstance(failed, jobs.DeadJob)
    assert failed.job.host == HOST


def test_hosts_whose_turns_come_at_one_moment_have_as_many_whatever_their_names(clock: Clock) -> None:
    hosts = [f"{number}.example.com" for number in range(40)]
    enqueue(*(job(f"{host}/{number}", host) for host in hosts for number in range(8)))
    served = Counter[str]()
    for _ in range(8):
        for one in claim_some(40, fast=40):
            if isinstance(one, jobs.ClaimedJob):
                served[one.host] += 1
                report(one)
        clock.pass_by(2)
    assert max(served.values()) - min(served[host] for host in hosts) <= 1
