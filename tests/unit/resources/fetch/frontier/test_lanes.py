"""Lanes: short jobs do not wait behind long ones. Two workers, four fifths of their time taken."""

from statistics import fmean

import pytest

from tests.support.frontier_clock import Clock
from tests.support.frontier_simulation import Arrival, Fetcher, mean_wait, merged, poisson, waits_by_recursion

SHORT, LONG = 1.0, 10.0
LOAD = 0.8
"""Of each of the two workers: by short jobs the one, by long jobs the other."""


def streams(short: int, seed: int) -> tuple[list[Arrival], list[Arrival]]:
    """So many short arrivals, and as much work in long ones."""
    return poisson(LOAD / SHORT, SHORT, short, seed), poisson(LOAD / LONG, LONG, round(short * SHORT / LONG), seed + 1)


def of_length(seconds: float, arrivals: list[Arrival], waits: list[float]) -> float:
    return fmean(wait for arrival, wait in zip(arrivals, waits, strict=True) if arrival.seconds == seconds)


def test_in_lanes_short_jobs_do_not_wait_for_long_ones_and_these_for_one_short_one_at_the_most(clock: Clock) -> None:
    both = merged(*streams(300, seed=1))
    waits = Fetcher(clock, places=2).waits(both, lambda arrival: "fast" if arrival.seconds == SHORT else "slow")
    for seconds, more in ((SHORT, 0.0), (LONG, SHORT)):
        lane = [place for place, arrival in enumerate(both) if arrival.seconds == seconds]
        alone = waits_by_recursion([both[place] for place in lane], 1)
        assert all(waits[place] <= wait + more + 0.01 for place, wait in zip(lane, alone, strict=True))


def test_in_one_queue_all_wait_for_their_turn_at_either_worker(clock: Clock) -> None:
    both = merged(*streams(300, seed=1))
    waits = Fetcher(clock, places=2).waits(both, lambda arrival: "fast")
    assert fmean(waits) == pytest.approx(fmean(waits_by_recursion(both, 2)), rel=0.01)


def test_short_jobs_wait_less_than_half_as_long_in_lanes_as_in_one_queue() -> None:
    short, long = streams(200_000, seed=3)
    both = merged(short, long)
    for stream, seconds in ((short, SHORT), (long, LONG)):
        assert fmean(waits_by_recursion(stream, 1)) == pytest.approx(mean_wait(LOAD / seconds, seconds), rel=0.1)
    mixed = of_length(SHORT, both, waits_by_recursion(both, 2))
    assert fmean(waits_by_recursion(short, 1)) < mixed / 2


def test_short_jobs_find_room_at_once_beside_long_ones_that_all_came_before_them(clock: Clock) -> None:
    flood = [Arrival(0.1 * number, LONG) for number in range(12)]
    short = [Arrival(SHORT + 2 * SHORT * number + 0.5, SHORT) for number in range(14)]
    waits = Fetcher(clock, places=5).waits([*flood, *short], lambda job: "fast" if job.seconds == SHORT else "slow")
    at_once = [wait for wait in waits[: len(flood)] if wait < SHORT]
    assert len(at_once) == 4, "nobody has needed the places of the fast lane, but for the one that is kept"
    assert waits[len(flood) :] == pytest.approx([0.0] * len(short), abs=0.01)
