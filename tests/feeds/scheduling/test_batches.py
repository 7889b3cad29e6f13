"""Plain batches, and what the pool makes of the same work."""

import pytest

from feeds.scheduling.batches import batches, replay_batches
from feeds.scheduling.fetches import Fetch, Limits
from feeds.scheduling.orders import Order
from feeds.scheduling.planning import plan
from feeds.scheduling.simulating import replay
from tests.feeds.scheduling.populations import population

THREE_SLOTS = Limits(slots=3)


def alone(*seconds: float) -> list[Fetch]:
    """Fetches from hosts of their own."""
    return [Fetch(str(place), f"{place}.example", each) for place, each in enumerate(seconds)]


EXAMPLE = alone(3, 10, 4, 13, 9, 2, 11, 20, 8)


@pytest.mark.parametrize(
    ("is_ordered", "expected", "total"),
    [
        (False, [[3, 10, 4], [13, 9, 2], [11, 20, 8]], 43),
        (True, [[2, 3, 4], [8, 9, 10], [11, 13, 20]], 34),
    ],
)
def test_each_batch_takes_as_long_as_its_slowest(is_ordered: bool, expected: list[list[float]], total: float) -> None:
    found = [[fetch.seconds for fetch in batch] for batch in batches(EXAMPLE, 3, is_ordered=is_ordered)]
    assert found == expected
    assert replay_batches(EXAMPLE, THREE_SLOTS, is_ordered=is_ordered).makespan_seconds == total


def test_without_a_barrier_the_same_is_done_sooner() -> None:
    assert replay(EXAMPLE, THREE_SLOTS, Order.LONGEST_CHAIN).makespan_seconds == 28


def test_batches_wait_for_the_gaps_of_hosts_too() -> None:
    fetches = [Fetch(str(number), "one.example", 1) for number in range(4)]
    replayed = replay_batches(fetches, Limits(slots=2, in_flight=2, gap_seconds=5), is_ordered=False)
    assert [run.began for run in replayed.runs] == [0, 5, 10, 15]


def test_batches_take_twice_as_long_as_the_bound_where_the_pool_takes_little_more() -> None:
    limits = Limits(slots=20, in_flight=1, gap_seconds=0.5)
    found = plan(population(), limits)
    assert found.ratio(found.replay) < 1.05
    assert found.ratio(found.batches) > 2
