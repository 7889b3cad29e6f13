"""What a scan would do, told beforehand."""

from feeds.scheduling.fetches import Fetch, Limits
from feeds.scheduling.planning import plan

FETCHES = [Fetch("a", "one.example", 1), Fetch("b", "one.example", 2), Fetch("c", "two.example", 1)]


def test_a_plan_has_the_order_the_total_and_the_bound() -> None:
    found = plan(FETCHES, Limits(slots=2))
    assert [run.fetch.key for run in found.replay.runs] == ["b", "c", "a"]
    assert (found.replay.makespan_seconds, found.bound.seconds) == (3, 3)
    assert found.ratio(found.replay) == 1


def test_what_really_happened_is_replayed_in_the_order_that_was_expected() -> None:
    found = plan(FETCHES, Limits(slots=2), took={"a": 10})
    assert [run.fetch.key for run in found.replay.runs] == ["b", "c", "a"]
    assert found.replay.makespan_seconds == 12
    assert found.bound.seconds == 12


def test_nothing_to_do_takes_no_time() -> None:
    found = plan([], Limits())
    assert found.replay.makespan_seconds == 0
    assert found.replay.mean_completion_seconds == 0
    assert found.ratio(found.replay) == 1
