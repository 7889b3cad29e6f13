"""Orders of fetches, and the lower bound: no order beats it, and some reach it."""

from itertools import pairwise, permutations
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.schedule import order as orders
from feeds.schedule.order import FetchOrder, GapFrom, PlannedFetch, PoolLimits, chain_seconds, lower_bound
from feeds.schedule.simulation import FetchPool, plan_fetches, replay_pool
from tests.support.feed_populations import population

LIMITS = st.one_of(
    st.builds(
        PoolLimits,
        slots=st.integers(1, 5),
        in_flight=st.integers(1, 4),
        gap_seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    ),
    st.builds(
        PoolLimits, slots=st.integers(1, 5), gap_seconds=st.sampled_from([0.0, 1.0]), gap_from=st.just(GapFrom.END)
    ),
)
FETCHES = st.lists(
    st.builds(
        PlannedFetch,
        key=st.uuids().map(str),
        host=st.sampled_from("abcd"),
        seconds=st.floats(0, 30),
        is_flagged=st.booleans(),
    ),
    max_size=25,
)


@given(FETCHES, LIMITS, st.sampled_from(FetchOrder))
def test_no_order_is_faster_than_the_bound(fetches: list[PlannedFetch], limits: PoolLimits, order: FetchOrder) -> None:
    assert replay_pool(fetches, limits, order).makespan_seconds >= lower_bound(fetches, limits).seconds - 1e-6


@settings(max_examples=50)
@given(FETCHES, LIMITS, st.sampled_from(FetchOrder))
def test_each_fetch_runs_once_and_within_all_limits(
    fetches: list[PlannedFetch], limits: PoolLimits, order: FetchOrder
) -> None:
    runs = replay_pool(fetches, limits, order).runs
    assert sorted(run.fetch.key for run in runs) == sorted(fetch.key for fetch in fetches)
    for run in runs:
        others = [other for other in runs if other.began <= run.began < other.ended]
        assert len(others) <= limits.slots
        assert sum(other.fetch.host == run.fetch.host for other in others) <= limits.in_flight
    for host in "abcd":
        mine = [run for run in runs if run.fetch.host == host]
        for before, after in pairwise(mine):
            since = before.ended if limits.gap_from is GapFrom.END else before.began
            assert after.began >= since + limits.gap_seconds - 1e-9


@settings(max_examples=50)
@given(FETCHES, LIMITS, st.sampled_from(FetchOrder))
def test_no_slot_idles_while_something_may_begin(
    fetches: list[PlannedFetch], limits: PoolLimits, order: FetchOrder
) -> None:
    runs = replay_pool(fetches, limits, order).runs
    for run in runs:
        mine = [other for other in runs if other.fetch.host == run.fetch.host and other is not run]
        since_start = limits.gap_seconds if limits.gap_from is GapFrom.START else 0.0
        since_end = limits.gap_seconds if limits.gap_from is GapFrom.END else 0.0
        host_was_let = {0.0} | {each.began + since_start for each in mine} | {each.ended + since_end for each in mine}
        slots_were_full = sum(other.began < run.began <= other.ended for other in runs) == limits.slots
        assert slots_were_full or any(abs(run.began - moment) < 1e-9 for moment in host_was_let)


def test_with_gaps_from_the_end_a_chain_is_all_seconds_and_the_gaps_between() -> None:
    assert chain_seconds([3, 1, 2], PoolLimits(gap_seconds=10, gap_from=GapFrom.END)) == 26


@pytest.mark.parametrize("in_flight", [1, 2, 3])
@pytest.mark.parametrize("seconds", [(5, 1, 1, 1), (0.1, 0.2, 0.3), (4, 4), (9,), (3, 0.5, 3, 0.5)])
def test_of_gaps_from_the_start_no_sequence_is_faster(seconds: tuple[float, ...], in_flight: int) -> None:
    limits = PoolLimits(slots=5, in_flight=in_flight, gap_seconds=1)
    best = min(_in_sequence(order, limits) for order in permutations(seconds))
    assert chain_seconds(seconds, limits) <= best
    if in_flight == 1:
        assert chain_seconds(seconds, limits) == pytest.approx(best)


def _in_sequence(seconds: tuple[float, ...], limits: PoolLimits) -> float:
    pool = FetchPool(limits, FetchOrder.GIVEN, {})
    pool.add(PlannedFetch(str(place), "one.example", each) for place, each in enumerate(seconds))
    return max(run.ended for run in pool.run())


@pytest.mark.parametrize(
    ("fetches", "why"),
    [
        ([PlannedFetch(str(n), f"{n}.example", 3) for n in range(9)], "all slots are busy all the time"),
        ([PlannedFetch("1", "1.example", 9), PlannedFetch("2", "2.example", 1)], "one fetch takes as long"),
        ([PlannedFetch(n, "1.example", 1) for n in "123"], "the feeds of 1.example have to wait for each other"),
        ([], "all slots are busy all the time"),
    ],
)
def test_the_bound_says_what_it_comes_from(fetches: list[PlannedFetch], why: str) -> None:
    assert lower_bound(fetches, PoolLimits(slots=3, gap_seconds=10)).why == why


@pytest.mark.parametrize(
    "wrong", [{"slots": 0}, {"in_flight": 0}, {"gap_seconds": -1}, {"in_flight": 2, "gap_from": GapFrom.END}]
)
def test_limits_that_nothing_can_keep_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="fetch"):
        PoolLimits(**wrong)  # type: ignore[arg-type]


def test_a_host_whose_limits_are_known_counts_by_those() -> None:
    fetches = [PlannedFetch(str(place), host, 1) for place, host in enumerate("aabb")]
    found = lower_bound(fetches, PoolLimits(slots=4), {"b": PoolLimits(slots=4, gap_seconds=5)})
    assert (found.seconds, found.host) == (6, "b")


ONE_SLOT = PoolLimits(slots=1)


def begun(fetches: list[PlannedFetch], order: FetchOrder, limits: PoolLimits = ONE_SLOT) -> list[str]:
    return [run.fetch.key for run in replay_pool(fetches, limits, order).runs]


HOSTS = [
    PlannedFetch("short", "short.example", 1),
    PlannedFetch("b", "long.example", 3),
    PlannedFetch("a", "long.example", 2),
    PlannedFetch("middle", "middle.example", 4),
]


def test_the_host_that_is_busy_longest_comes_first_and_as_given_is_as_given() -> None:
    assert begun(HOSTS, FetchOrder.LONGEST_CHAIN) == ["b", "middle", "a", "short"]
    assert begun(HOSTS, FetchOrder.GIVEN) == ["short", "b", "a", "middle"]


def test_a_host_that_does_not_decide_waits_for_shorter_fetches() -> None:
    many = [PlannedFetch(str(place), f"{place}.example", 1) for place in range(30)]
    found = begun([*HOSTS, *many], FetchOrder.DECISIVE_CHAIN)
    assert [found.index(name) for name in ("a", "middle", "b")] == [25, 27, 30]  # as the rest only just fills the slot


def test_a_fetch_that_is_as_long_as_all_the_rest_begins_in_time() -> None:
    fetches = [PlannedFetch("long", "long.example", 30), *[PlannedFetch(str(n), f"{n}.example", 1) for n in range(30)]]
    limits = PoolLimits(slots=2)
    for order in (FetchOrder.DECISIVE_CHAIN, FetchOrder.LONGEST_CHAIN):
        assert begun(fetches, order, limits)[0] == "long"
        assert replay_pool(fetches, limits, order).makespan_seconds == 30
    assert replay_pool(fetches, limits, FetchOrder.SHORTEST).makespan_seconds == 45


@pytest.mark.parametrize("order", FetchOrder)
def test_what_is_flagged_comes_first_in_every_order(order: FetchOrder) -> None:
    flagged = [
        PlannedFetch("z", "long.example", 2.5, is_flagged=True),
        PlannedFetch("y", "y.example", 3, is_flagged=True),
    ]
    assert set(begun([*HOSTS, *flagged], order)[:2]) == {"z", "y"}


def test_gaps_count_as_time_that_a_host_is_busy() -> None:
    many = [PlannedFetch(str(n), "many.example", 0.1) for n in range(5)]
    fetches = [PlannedFetch("alone", "alone.example", 3), *many]
    assert begun(fetches, FetchOrder.LONGEST_CHAIN, PoolLimits(slots=1, gap_seconds=2))[0] == "0"


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60))
def test_long_and_short_ones_are_mixed_and_none_is_lost(seconds: list[float]) -> None:
    line = orders.even_out(
        [PlannedFetch(str(place), "one.example", each) for place, each in enumerate(sorted(seconds))]
    )
    assert sorted(fetch.seconds for fetch in line) == sorted(seconds)
    mean, begun = sum(seconds) / len(seconds), 0.0
    for place, fetch in enumerate(line):
        # Never further from the mean than by one fetch.
        assert abs(begun - mean * place) <= max(seconds) + 1e-6
        begun += fetch.seconds


def test_hosts_that_do_not_decide_are_fetched_shortest_first() -> None:
    fetches = [*[PlannedFetch(str(n), "many.example", 10) for n in range(9)], *HOSTS]
    line = orders.line_up_fetches(fetches, PoolLimits(slots=2, in_flight=2), FetchOrder.LONGEST_CHAIN)["long.example"]
    assert [fetch.key for fetch in line] == ["a", "b"]


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        pytest.param(PoolLimits(20, 1, 1.0, GapFrom.END), 1.02, id="one at a time, a second between"),
        pytest.param(PoolLimits(20, 1, 0.5), 1.02, id="one at a time, half a second from start to start"),
        pytest.param(PoolLimits(20, 2, 0.25), 1.12, id="two at a time"),
        pytest.param(PoolLimits(20, 4, 0.02), 1.05, id="four at a time"),
    ],
)
def test_all_is_done_little_later_than_the_bound(limits: PoolLimits, most: float) -> None:
    found = plan_fetches(population(), limits)
    assert found.ratio(found.replay) <= most


@pytest.mark.parametrize(
    "limits", [PoolLimits(20, 1, 1.0, GapFrom.END), PoolLimits(20, 1, 0.5), PoolLimits(20, 4, 0.25)], ids=str
)
def test_the_end_comes_as_early_as_with_the_longest_chain_first_and_the_mean_feed_much_earlier(
    limits: PoolLimits,
) -> None:
    pairs = [
        [
            replay_pool(population(seed), limits, order)
            for order in (FetchOrder.DECISIVE_CHAIN, FetchOrder.LONGEST_CHAIN)
        ]
        for seed in range(5)
    ]
    assert median(ours.makespan_seconds / before.makespan_seconds for ours, before in pairs) <= 1.01
    assert median(ours.mean_completion_seconds / before.mean_completion_seconds for ours, before in pairs) <= 0.6


def test_without_any_timings_the_first_run_is_within_a_third_of_the_bound() -> None:
    fetches = population()
    took = {fetch.key: fetch.seconds for fetch in fetches}
    unknown = [PlannedFetch(fetch.key, fetch.host, 1.0) for fetch in fetches]
    found = plan_fetches(unknown, PoolLimits(20, 4, 0.1), took)
    assert found.ratio(found.replay) <= 1.3
