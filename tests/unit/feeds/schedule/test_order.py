"""How soon all can be done: no order beats it, and some reach it."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.scheduling.bounds import bound, chain_seconds
from feeds.scheduling.fetches import Fetch, Gap, Limits
from feeds.scheduling.orders import Order
from feeds.scheduling.simulating import Pool, replay

LIMITS = st.one_of(
    st.builds(
        Limits,
        slots=st.integers(1, 5),
        in_flight=st.integers(1, 4),
        gap_seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    ),
    st.builds(Limits, slots=st.integers(1, 5), gap_seconds=st.sampled_from([0.0, 1.0]), gap_from=st.just(Gap.END)),
)
FETCHES = st.lists(
    st.builds(
        Fetch,
        key=st.uuids().map(str),
        host=st.sampled_from("abcd"),
        seconds=st.floats(0, 30),
        is_flagged=st.booleans(),
    ),
    max_size=25,
)


@given(FETCHES, LIMITS, st.sampled_from(Order))
def test_no_order_is_faster_than_the_bound(fetches: list[Fetch], limits: Limits, order: Order) -> None:
    assert replay(fetches, limits, order).makespan_seconds >= bound(fetches, limits).seconds - 1e-6


@settings(max_examples=50)
@given(FETCHES, LIMITS, st.sampled_from(Order))
def test_each_fetch_runs_once_and_within_all_limits(fetches: list[Fetch], limits: Limits, order: Order) -> None:
    runs = replay(fetches, limits, order).runs
    assert sorted(run.fetch.key for run in runs) == sorted(fetch.key for fetch in fetches)
    for run in runs:
        others = [other for other in runs if other.began <= run.began < other.ended]
        assert len(others) <= limits.slots
        assert sum(other.fetch.host == run.fetch.host for other in others) <= limits.in_flight
    for host in "abcd":
        mine = [run for run in runs if run.fetch.host == host]
        for before, after in pairwise(mine):
            since = before.ended if limits.gap_from is Gap.END else before.began
            assert after.began >= since + limits.gap_seconds - 1e-9


@settings(max_examples=50)
@given(FETCHES, LIMITS, st.sampled_from(Order))
def test_no_slot_idles_while_something_may_begin(fetches: list[Fetch], limits: Limits, order: Order) -> None:
    runs = replay(fetches, limits, order).runs
    for run in runs:
        mine = [other for other in runs if other.fetch.host == run.fetch.host and other is not run]
        since_start = limits.gap_seconds if limits.gap_from is Gap.START else 0.0
        since_end = limits.gap_seconds if limits.gap_from is Gap.END else 0.0
        host_was_let = {0.0} | {each.began + since_start for each in mine} | {each.ended + since_end for each in mine}
        slots_were_full = sum(other.began < run.began <= other.ended for other in runs) == limits.slots
        assert slots_were_full or any(abs(run.began - moment) < 1e-9 for moment in host_was_let)


def test_with_gaps_from_the_end_a_chain_is_all_seconds_and_the_gaps_between() -> None:
    assert chain_seconds([3, 1, 2], Limits(gap_seconds=10, gap_from=Gap.END)) == 26


@pytest.mark.parametrize("in_flight", [1, 2, 3])
@pytest.mark.parametrize("seconds", [(5, 1, 1, 1), (0.1, 0.2, 0.3), (4, 4), (9,), (3, 0.5, 3, 0.5)])
def test_of_gaps_from_the_start_no_sequence_is_faster(seconds: tuple[float, ...], in_flight: int) -> None:
    limits = Limits(slots=5, in_flight=in_flight, gap_seconds=1)
    best = min(_in_sequence(order, limits) for order in permutations(seconds))
    assert chain_seconds(seconds, limits) <= best
    if in_flight == 1:
        assert chain_seconds(seconds, limits) == pytest.approx(best)


def _in_sequence(seconds: tuple[float, ...], limits: Limits) -> float:
    pool = Pool(limits, Order.GIVEN, {})
    pool.add(Fetch(str(place), "one.example", each) for place, each in enumerate(seconds))
    return max(run.ended for run in pool.run())


@pytest.mark.parametrize(
    ("fetches", "why"),
    [
        ([Fetch(str(n), f"{n}.example", 3) for n in range(9)], "all slots are busy all the time"),
        ([Fetch("1", "1.example", 9), Fetch("2", "2.example", 1)], "one fetch takes as long"),
        ([Fetch(str(n), "1.example", 1) for n in range(3)], "the feeds of 1.example have to wait for each other"),
        ([], "all slots are busy all the time"),
    ],
)
def test_the_bound_says_what_it_comes_from(fetches: list[Fetch], why: str) -> None:
    assert bound(fetches, Limits(slots=3, gap_seconds=10)).why == why


@pytest.mark.parametrize(
    "wrong",
    [{"slots": 0}, {"in_flight": 0}, {"gap_seconds": -1}, {"in_flight": 2, "gap_from": Gap.END}],
)
def test_limits_that_nothing_can_keep_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="fetch"):
        Limits(**wrong)  # type: ignore[arg-type]


def test_a_host_whose_limits_are_known_counts_by_those() -> None:
    fetches = [Fetch(str(place), host, 1) for place, host in enumerate("aabb")]
    found = bound(fetches, Limits(slots=4), {"b": Limits(slots=4, gap_seconds=5)})
    assert (found.seconds, found.host) == (6, "b")
