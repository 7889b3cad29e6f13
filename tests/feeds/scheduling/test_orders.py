"""In which order fetches begin, and what comes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.scheduling.fetches import Fetch, Gap, Limits
from feeds.scheduling.orders import Order, evened, lines
from feeds.scheduling.planning import plan
from feeds.scheduling.simulating import replay
from tests.feeds.scheduling.populations import population

ONE_SLOT = Limits(slots=1)


def begun(fetches: list[Fetch], order: Order, limits: Limits = ONE_SLOT) -> list[str]:
    return [run.fetch.key for run in replay(fetches, limits, order).runs]


HOSTS = [
    Fetch("short", "short.example", 1),
    Fetch("b", "long.example", 3),
    Fetch("a", "long.example", 2),
    Fetch("middle", "middle.example", 4),
]


def test_the_host_that_is_busy_longest_comes_first() -> None:
    assert begun(HOSTS, Order.LONGEST_CHAIN) == ["b", "middle", "a", "short"]


def test_where_no_host_decides_the_shortest_comes_first() -> None:
    small = [Fetch(str(number), f"{number}.example", 1 + number) for number in range(20)]
    assert begun(small, Order.DECISIVE_CHAIN)[:10] == [str(number) for number in range(10)]


def test_a_fetch_that_is_as_long_as_all_the_rest_begins_in_time() -> None:
    fetches = [Fetch("long", "long.example", 30), *[Fetch(str(n), f"{n}.example", 1) for n in range(30)]]
    limits = Limits(slots=2)
    assert begun(fetches, Order.DECISIVE_CHAIN, limits)[0] == "long"
    assert replay(fetches, limits, Order.DECISIVE_CHAIN).makespan_seconds == 30
    assert replay(fetches, limits, Order.SHORTEST).makespan_seconds == 45


@pytest.mark.parametrize("order", Order)
def test_what_is_flagged_comes_first_in_every_order(order: Order) -> None:
    fetches = [*HOSTS, Fetch("z", "long.example", 2.5, is_flagged=True), Fetch("y", "y.example", 3, is_flagged=True)]
    assert set(begun(fetches, order)[:2]) == {"z", "y"}


def test_as_given_is_as_given() -> None:
    assert begun(HOSTS, Order.GIVEN) == ["short", "b", "a", "middle"]


def test_gaps_count_as_time_that_a_host_is_busy() -> None:
    fetches = [Fetch("alone", "alone.example", 3), *[Fetch(str(n), "many.example", 0.1) for n in range(5)]]
    assert begun(fetches, Order.LONGEST_CHAIN, Limits(slots=1, gap_seconds=2))[0] == "0"


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60))
def test_long_and_short_ones_are_mixed_and_none_is_lost(seconds: list[float]) -> None:
    line = evened([Fetch(str(place), "one.example", each) for place, each in enumerate(sorted(seconds))])
    assert sorted(fetch.seconds for fetch in line) == sorted(seconds)
    mean, begun = sum(seconds) / len(seconds), 0.0
    for place, fetch in enumerate(line):
        # Never further from the mean than by one fetch.
        assert abs(begun - mean * place) <= max(seconds) + 1e-6
        begun += fetch.seconds


def test_hosts_that_do_not_decide_are_fetched_shortest_first() -> None:
    fetches = [*[Fetch(str(n), "many.example", 10) for n in range(9)], *HOSTS]
    line = lines(fetches, Limits(slots=2, in_flight=2), Order.LONGEST_CHAIN)["long.example"]
    assert [fetch.key for fetch in line] == ["a", "b"]


LIMITS = [
    pytest.param(Limits(20, 1, 1.0, Gap.END), 1.02, id="one at a time, a second between"),
    pytest.param(Limits(20, 1, 0.5), 1.02, id="one at a time, half a second from start to start"),
    pytest.param(Limits(20, 2, 0.25), 1.12, id="two at a time"),
    pytest.param(Limits(20, 4, 0.02), 1.05, id="four at a time"),
]


@pytest.mark.parametrize(("limits", "most"), LIMITS)
@pytest.mark.parametrize("order", [Order.LONGEST_CHAIN, Order.DECISIVE_CHAIN])
def test_all_is_done_little_later_than_the_bound(order: Order, limits: Limits, most: float) -> None:
    found = plan(population(), limits, order=order)
    assert found.ratio(found.replay) <= most


@pytest.mark.parametrize(("limits", "most"), LIMITS)
def test_short_ones_first_among_the_rest_halves_the_time_to_most_of_them(limits: Limits, most: float) -> None:
    chains = replay(population(), limits, Order.LONGEST_CHAIN).mean_completion_seconds
    assert replay(population(), limits, Order.DECISIVE_CHAIN).mean_completion_seconds < 0.7 * chains


def test_without_any_timings_the_first_run_is_within_a_third_of_the_bound() -> None:
    fetches = population()
    took = {fetch.key: fetch.seconds for fetch in fetches}
    unknown = [Fetch(fetch.key, fetch.host, 1.0) for fetch in fetches]
    found = plan(unknown, Limits(20, 4, 0.1), took)
    assert found.ratio(found.replay) <= 1.3
