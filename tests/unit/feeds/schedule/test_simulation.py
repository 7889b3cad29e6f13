"""The simulation of a scan: expected durations, plain batches, and a scan told beforehand."""

import pytest

from feeds.schedule import simulation
from feeds.schedule.order import FetchOrder, PlannedFetch, PoolLimits
from feeds.schedule.simulation import mean_of_timings, plan_fetches, replay_batches
from tests.support.feed_populations import population

THREE_SLOTS = PoolLimits(slots=3)


def alone(*seconds: float) -> list[PlannedFetch]:
    """Fetches from hosts of their own."""
    return [PlannedFetch(str(place), f"{place}.example", each) for place, each in enumerate(seconds)]


EXAMPLE = alone(3, 10, 4, 13, 9, 2, 11, 20, 8)


@pytest.mark.parametrize(
    ("is_ordered", "expected", "total"),
    [
        (False, {0: {3, 10, 4}, 10: {13, 9, 2}, 23: {11, 20, 8}}, 43),
        (True, {0: {2, 3, 4}, 4: {8, 9, 10}, 14: {11, 13, 20}}, 34),
    ],
)
def test_each_batch_takes_as_long_as_its_slowest(
    is_ordered: bool, expected: dict[float, set[float]], total: float
) -> None:
    replayed = replay_batches(EXAMPLE, THREE_SLOTS, is_ordered=is_ordered)
    found: dict[float, set[float]] = {}
    for run in replayed.runs:
        found.setdefault(run.began, set()).add(run.fetch.seconds)
    assert found == expected
    assert replayed.makespan_seconds == total


def test_without_a_barrier_the_same_is_done_sooner() -> None:
    assert simulation.replay_pool(EXAMPLE, THREE_SLOTS, FetchOrder.LONGEST_CHAIN).makespan_seconds == 28


def test_batches_wait_for_the_gaps_of_hosts_too() -> None:
    fetches = [PlannedFetch(str(number), "one.example", 1) for number in range(4)]
    replayed = replay_batches(fetches, PoolLimits(slots=2, in_flight=2, gap_seconds=5), is_ordered=False)
    assert [run.began for run in replayed.runs] == [0, 5, 10, 15]


def test_batches_take_twice_as_long_as_the_bound_where_the_pool_takes_little_more() -> None:
    limits = PoolLimits(slots=20, in_flight=1, gap_seconds=0.5)
    found = plan_fetches(population(), limits)
    assert found.ratio(found.replay) < 1.05
    assert found.ratio(found.batches) > 2


FETCHES = [
    PlannedFetch("a", "one.example", 1),
    PlannedFetch("b", "one.example", 2),
    PlannedFetch("c", "two.example", 1),
]


def test_a_plan_has_the_order_the_total_and_the_bound() -> None:
    found = plan_fetches(FETCHES, PoolLimits(slots=2))
    assert [run.fetch.key for run in found.replay.runs] == ["b", "c", "a"]
    assert (found.replay.makespan_seconds, found.bound.seconds) == (3, 3)
    assert found.ratio(found.replay) == 1


def test_what_really_happened_is_replayed_in_the_order_that_was_expected() -> None:
    found = plan_fetches(FETCHES, PoolLimits(slots=2), took={"a": 10})
    assert [run.fetch.key for run in found.replay.runs] == ["b", "c", "a"]
    assert found.replay.makespan_seconds == found.bound.seconds == 12


def test_nothing_to_do_takes_no_time() -> None:
    found = plan_fetches([], PoolLimits())
    replay = found.replay
    assert (replay.makespan_seconds, replay.mean_completion_seconds, found.ratio(replay)) == (0, 0, 1)


def test_the_last_twenty_timings_count() -> None:
    assert mean_of_timings([1000.0] * 5 + [2.0] * 10 + [4.0] * 10) == 3
    assert mean_of_timings([]) is None
