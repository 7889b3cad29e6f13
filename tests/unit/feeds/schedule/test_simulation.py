"""The simulation of a scan: expected durations, plain batches, and a scan told beforehand."""

from feeds.schedule.order import PlannedFetch, PoolLimits
from feeds.schedule.simulation import mean_of_timings, plan_fetches, replay_batches


def test_batches_wait_for_the_gaps_of_hosts_too() -> None:
    fetches = [PlannedFetch(str(number), "one.example", 1) for number in range(4)]
    replayed = replay_batches(fetches, PoolLimits(slots=2, in_flight=2, gap_seconds=5), is_ordered=False)
    assert [run.began for run in replayed.runs] == [0, 5, 10, 15]


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


def test_the_last_twenty_timings_count() -> None:
    assert mean_of_timings([1000.0] * 5 + [2.0] * 10 + [4.0] * 10) == 3
    assert mean_of_timings([]) is None
