"""Hosts that fail, retries that cost, and a network of ours that is away."""

from itertools import pairwise

import pytest

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import (
    ClaimedJob,
    DomainLimits,
    JobEnded,
    JobRequeued,
    NoRetryBudget,
    NothingDue,
    RequestReport,
)
from resources.fetch.frontier.queue import HoldJob, RetryJob
from retry import stores
from tests.support.frontier import (
    FAILED,
    HOST,
    OK,
    REFUSED,
    THROTTLED,
    UNREACHABLE,
    UNSENT,
    backlog,
    claim,
    claimed,
    enqueue,
    idle,
    job,
    next_claimed,
    record,
    report,
)
from tests.support.frontier_clock import Clock

run = stores.run_steps


def fail_until_it_opens(clock: Clock) -> None:
    for _ in range(5):
        report(next_claimed(clock), FAILED)


def test_a_host_that_keeps_failing_is_left_alone_for_longer_and_longer(clock: Clock) -> None:
    backlog()
    fail_until_it_opens(clock)
    rests = []
    for _ in range(4):
        rests.append(float(record()["circuit_until"]) / 1000 - clock.unix)
        clock.pass_by(rests[-1] - 0.1)
        idle()
        report(next_claimed(clock), FAILED)
    assert 24 <= rests[0] <= 36
    assert all(0.6 * 2 <= later / earlier <= 1.5 * 2 for earlier, later in pairwise(rests))


def test_an_open_circuit_tries_one_request_at_a_time(clock: Clock) -> None:
    run(queue.set_limits(HOST, DomainLimits(in_flight=4)))
    backlog()
    fail_until_it_opens(clock)
    trial = next_claimed(clock)
    clock.pass_by(10)
    assert isinstance(claim(), NothingDue)
    report(trial, OK)
    claimed()
    clock.pass_by(1)
    claimed()


def test_failures_of_requests_from_before_the_circuit_opened_keep_it_open_no_longer(clock: Clock) -> None:
    run(queue.set_limits(HOST, DomainLimits(in_flight=8)))
    backlog()
    held = [next_claimed(clock) for _ in range(8)]
    for one in held:
        report(one, FAILED)
    assert record()["opens"] == "1"


@pytest.mark.parametrize("answer", [OK, REFUSED])
def test_any_sound_answer_ends_a_row_of_failures(clock: Clock, answer: RequestReport) -> None:
    backlog()
    for _ in range(4):
        report(next_claimed(clock), FAILED)
    report(next_claimed(clock), answer)
    fail_until_it_opens(clock)
    assert record()["opens"] == "1"


def test_retries_of_a_domain_have_a_budget_that_requests_earn(clock: Clock) -> None:
    backlog()
    found = [report(next_claimed(clock), REFUSED, RetryJob(3600)) for _ in range(20)]
    assert 10 <= found.count(JobRequeued(3600)) <= 12
    assert set(found[12:]) == {NoRetryBudget()}
    for _ in range(10):
        report(next_claimed(clock))
    assert report(next_claimed(clock), REFUSED, RetryJob(3600)) == JobRequeued(3600)


def test_a_job_without_a_budget_to_retry_is_held_until_its_failure_is_told(clock: Clock) -> None:
    backlog()
    while isinstance(report(held := next_claimed(clock), REFUSED, RetryJob(3600)), JobRequeued):
        pass
    assert run(queue.finish_job(held)) == JobEnded()


def test_a_budget_to_retry_is_not_saved_up(clock: Clock) -> None:
    backlog(size=40)
    for _ in range(30):
        report(next_claimed(clock))
    retried = 0
    while isinstance(report(next_claimed(clock), REFUSED, RetryJob(3600)), JobRequeued):
        retried += 1
    assert retried in {10, 11}  # ten, and the one that ten requests earn


def fetched_once(clock: Clock, *hosts: str) -> None:
    for host in hosts:
        enqueue(job("first", host))
        report(next_claimed(clock))
        backlog(host, 3)


HOSTS = [f"{name}.example.com" for name in "abcdef"]


def test_many_hosts_that_cannot_be_reached_at_once_are_our_networks_fault(clock: Clock) -> None:
    fetched_once(clock, *HOSTS)
    clock.pass_by(60)
    held = [next_claimed(clock) for _ in HOSTS]
    for one in held[:3]:
        report(one, UNREACHABLE, HoldJob())
    for one in held[3:]:
        assert report(one, UNREACHABLE) == JobRequeued(2)
    for host in HOSTS:
        assert float(record(host).get("failures", 0)) == 0
        assert float(record(host).get("trouble_since", 0)) == 0


def test_attempts_that_failed_of_our_own_network_are_taken_back(clock: Clock) -> None:
    fetched_once(clock, *HOSTS)
    clock.pass_by(60)
    held = [next_claimed(clock) for _ in HOSTS]
    for one in held[:3]:
        assert isinstance(report(one, UNREACHABLE, RetryJob(1)), JobRequeued)
    budgets = [float(record(one.scope)["budget"]) for one in held[:3]]
    report(held[3], UNREACHABLE, RetryJob(1))
    assert [float(record(one.scope)["budget"]) for one in held[:3]] == [budget + 1 for budget in budgets]
    for one in held[4:]:
        report(one)  # the network is there again
    clock.pass_by(60)
    again = {one.key: one.attempts for one in iter(lambda: finished(clock), None)}
    assert [again[one.key] for one in held[:3]] == [0, 0, 0]


def finished(clock: Clock) -> ClaimedJob | None:
    """The next job, which is done; None when nothing is left."""
    found = claim()
    while isinstance(found, NothingDue) and found.wait_seconds < 50:
        clock.pass_by(found.wait_seconds)
        found = claim()
    if isinstance(found, NothingDue):
        return None
    assert isinstance(found, ClaimedJob)
    report(found)
    return found


def test_a_request_that_was_not_sent_is_no_attempt(clock: Clock) -> None:
    enqueue(job())
    assert report(claimed(), UNSENT, RetryJob(5)) == JobRequeued(5)
    clock.pass_by(5.1)
    assert claimed().attempts == 0


def test_what_is_nobodys_failure_is_no_attempt_and_costs_no_retry(clock: Clock) -> None:
    enqueue(job())
    for _ in range(15):
        assert report(next_claimed(clock), REFUSED, RetryJob(5, counts=False)) == JobRequeued(5)
    assert next_claimed(clock).attempts == 0
    assert "budget" not in record()


def test_while_our_network_is_away_one_request_at_a_time_tries_it(clock: Clock) -> None:
    fetched_once(clock, *HOSTS)
    clock.pass_by(60)
    for one in [next_claimed(clock) for _ in HOSTS]:
        report(one, UNREACHABLE)
    assert idle() == pytest.approx(2, abs=0.1)
    clock.pass_by(1)
    idle()
    claimed(machine="another")
    clock.pass_by(1.1)
    trial = claimed()
    assert idle() == pytest.approx(2, abs=0.1)
    assert report(trial, UNREACHABLE) == JobRequeued(2)
    clock.pass_by(2.1)
    report(claimed())
    claimed()
    claimed()


def test_an_answer_from_anybody_shows_that_our_network_is_there(clock: Clock) -> None:
    fetched_once(clock, *HOSTS)
    clock.pass_by(60)
    held = [next_claimed(clock) for _ in HOSTS]
    for number, one in enumerate(held):
        report(one, THROTTLED if number == 2 else UNREACHABLE, HoldJob())
    failures = [int(float(record(host).get("failures", 0))) for host in HOSTS]
    assert sorted(failures) == [0, 1, 1, 1, 1, 1]


def test_hosts_that_have_been_dead_for_long_are_not_our_networks_fault(clock: Clock) -> None:
    for host in HOSTS:
        backlog(host, 3)
    for one in [next_claimed(clock) for _ in HOSTS]:
        report(one, UNREACHABLE, HoldJob())
    assert all(record(host)["failures"] == "1" for host in HOSTS)
