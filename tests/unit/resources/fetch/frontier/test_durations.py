"""Durations of requests, as the frontier learns them."""

import pytest

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits
from retry import stores
from tests.support.frontier import (
    FAILED,
    HOST,
    THROTTLED,
    UNREACHABLE,
    claimed,
    enqueue,
    idle,
    job,
    next_claimed,
    record,
    report,
)
from tests.support.frontier_clock import Clock

SLOW, QUICK = "slow.example.com", "quick.example.com"


def request(clock: Clock, host: str, seconds: float, number: int = 1) -> None:
    """Sends so many requests of that duration to the host, with no other jobs."""
    for name in range(number):
        enqueue(job(f"taken-{name}", host))
        held = next_claimed(clock)
        clock.pass_by(seconds)
        report(held)


def test_the_domain_with_the_longest_chain_by_its_durations_comes_first(clock: Clock) -> None:
    request(clock, SLOW, 8, 5)
    request(clock, QUICK, 0.1, 5)
    enqueue(*(job(str(number), QUICK) for number in range(5)), *(job(str(number), SLOW) for number in range(2)))
    clock.pass_by(10)
    assert claimed().host == SLOW  # two of them take longer than five of the other


def test_what_is_said_of_a_job_holds_instead(clock: Clock) -> None:
    request(clock, SLOW, 8, 5)
    enqueue(job("1", SLOW, expected_seconds=0.5))
    assert float(record(SLOW)["sum_fast"]) == 500


def test_a_host_that_is_known_to_be_slow_is_asked_in_the_slow_lane_until_it_is_quick(clock: Clock) -> None:
    request(clock, HOST, 30, 3)
    enqueue(job("1"))
    clock.pass_by(1)
    idle("fast")
    assert claimed("slow").lane == "slow"
    clock.pass_by(1)
    request(clock, HOST, 0.5, 4)
    enqueue(job("2"))
    clock.pass_by(1)
    assert claimed("fast").url.endswith("/2")


@pytest.mark.parametrize("outcome", [FAILED, UNREACHABLE])
def test_who_swallows_requests_is_slow(clock: Clock, outcome: object) -> None:
    for name in range(4):
        enqueue(job(str(name)))
        held = next_claimed(clock)
        clock.pass_by(30)
        report(held, outcome)  # type: ignore[arg-type]
    enqueue(job("last"))
    assert float(record()["slow_3"]) == 1


def test_a_refusal_says_nothing_of_durations(clock: Clock) -> None:
    enqueue(job())
    stores.run_steps(queue.set_limits(HOST, DomainLimits(delay_seconds=0.1)))
    report(claimed(), THROTTLED)
    assert "took" not in record()
