"""The simulation of large loads: its formulas, and the page that shows its tables."""

from collections import OrderedDict
from random import Random
from statistics import mean

import pytest

from benchmarks.cluster import load_needs, popularity, queueing, scale
from benchmarks.cluster.load_needs import Load, needs_of
from feeds.scan import scanner
from project.paths import BASE_DIR
from tests.support.documentation import code_block

PAGE = BASE_DIR / "docs" / "scale.md"


@pytest.mark.parametrize(
    ("servers", "busy", "share"),
    [(1, 0.5, 0.5), (2, 1, 1 / 3), (3, 2, 4 / 9), (10, 8, 0.40918), (100, 90, 0.21694), (5, 5, 1)],
)
def test_erlang_c_has_its_known_values(servers: int, busy: float, share: float) -> None:
    assert queueing.share_that_waits(servers, busy) == pytest.approx(share, abs=2e-5)


def test_no_servers_are_refused_and_too_few_keep_clients_waiting_for_ever() -> None:
    with pytest.raises(ValueError, match="0 servers"):
        queueing.share_that_waits(0, 1)
    assert queueing.mean_wait(2, 3, 1) == float("inf")


def test_the_fewest_servers_keep_both_bounds_and_one_less_does_not() -> None:
    servers = queueing.servers_for(100, 0.36, wait_seconds=0.1, most_busy=1)
    assert queueing.mean_wait(servers, 100, 0.36) <= 0.1 < queueing.mean_wait(servers - 1, 100, 0.36)
    assert queueing.servers_for(100, 0.36, wait_seconds=0.1, most_busy=0.7) == 52


def test_the_simulated_wait_is_that_of_erlang() -> None:
    waits = queueing.simulated_waits(4, 3, lambda luck: luck.expovariate(1), clients=300_000, seed=2)
    assert mean(waits) == pytest.approx(queueing.mean_wait(4, 3, 1), rel=0.05)
    assert sum(wait > 0 for wait in waits) / len(waits) == pytest.approx(queueing.share_that_waits(4, 3), rel=0.03)


def simulated_hit_ratio(contents: int, skew: float, capacity: int, number: int) -> float:
    """Of a cache that drops the least recently used content, without the requests that fill it."""
    luck, cached, hits = Random(3), OrderedDict[int, None](), 0
    wanted = luck.choices(range(contents), [(rank + 1) ** -skew for rank in range(contents)], k=2 * number)
    for nth, content in enumerate(wanted):
        hits += nth >= number and content in cached
        cached[content] = None
        cached.move_to_end(content)
        if len(cached) > capacity:
            cached.popitem(last=False)
    return hits / number


@pytest.mark.parametrize(("skew", "capacity"), [(0.7, 100), (0.9, 1_000), (1.1, 50), (0.9, 10_000)])
def test_the_hit_ratio_by_che_is_that_of_a_simulated_cache(skew: float, capacity: int) -> None:
    requests = popularity.zipf(20_000, skew, 10)
    assert popularity.hit_ratio(requests, capacity) == pytest.approx(
        simulated_hit_ratio(20_000, skew, capacity, 100_000), abs=0.01
    )


def test_classes_of_contents_have_all_contents_and_all_requests() -> None:
    requests = popularity.zipf(10_000_000, 0.9, 500)
    assert requests.counts.sum() == 10_000_000
    assert requests.rate == pytest.approx(500)
    one_by_one = sum(rank**-0.9 for rank in range(1, 10_000_001))
    assert requests.rates[0] == pytest.approx(500 / one_by_one, rel=1e-3)


def test_a_cache_of_the_computed_size_misses_as_much_as_was_given() -> None:
    requests = popularity.zipf(100_000, 0.9, 1_000)
    capacity = popularity.capacity_for(requests, 50)
    assert 1 - popularity.hit_ratio(requests, capacity) == pytest.approx(0.05, rel=1e-3)
    assert popularity.hit_ratio(requests, 100_000) == 1


def simulated_requests(rate: float, fresh_seconds: float, seconds: float) -> float:
    """Requests a second that a cache passes on which asks anew when its copy is older than that."""
    luck, now, fetched_at, passed = Random(4), 0.0, float("-inf"), 0
    while now < seconds:
        now += luck.expovariate(rate)
        if now - fetched_at > fresh_seconds:
            fetched_at, passed = now, passed + 1
    return passed / seconds


@pytest.mark.parametrize("rate", [0.05, 0.2, 3])
def test_a_copy_is_renewed_as_often_as_by_a_simulated_front(rate: float) -> None:
    passed = popularity.zipf(1, 1, rate).after_fresh_copies(5, 1).rate
    assert passed == pytest.approx(simulated_requests(rate, 5, 100_000), rel=0.05)
    assert popularity.zipf(1, 1, rate).after_fresh_copies(5, 2).rate > passed


def test_all_together_need_what_each_of_them_needs() -> None:
    *alone, together = (needs_of(load) for load in scale.LOADS.values())
    for name in ("main_cpu", "state_cpu", "fetch_slots", "rows", "front_network", "bucket_bytes"):
        assert getattr(together, name) == pytest.approx(sum(getattr(needs, name) for needs in alone)), name


def test_a_limit_is_full_at_the_computed_multiple_of_a_load() -> None:
    for limit in (*scale.SETTINGS, *scale.PARTS):
        for load in scale.LOADS.values():
            full = scale.full_at(limit, load)
            if full != float("inf"):
                assert limit.needed(needs_of(load.times(full))) == pytest.approx(limit.capacity, rel=0.01)
            else:
                assert limit.needed(needs_of(load)) < limit.capacity


@pytest.mark.parametrize("wrong", [{"hits": -1}, {"cold_share": 1}, {"contents": 0}, {"skew": 0}])
def test_an_impossible_load_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="negative amount"):
        Load(**wrong)  # type: ignore[arg-type]


def test_more_of_a_small_cache_is_evicted() -> None:
    load = scale.LOADS["10⁵ hits a second"]
    shares = [load_needs.evicted_share(load, 2, gigabytes * 1e9) for gigabytes in (8, 32, 128, 160)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0


def test_the_page_shows_the_tables_that_the_simulation_prints() -> None:
    printed = "\n".join(note.text for note in scale.measure())
    page = PAGE.read_text()
    tables = printed.strip().split("\n\n")
    assert len(tables) == 4
    assert [table.splitlines()[0] for table in tables if table not in page] == []
    assert "cluster_scale" in code_block("docs/scale.md", "", "cluster_scale")


def test_a_scan_takes_as_many_feeds_as_the_simulation_has_it_take() -> None:
    assert scale.SCAN_FEEDS == scanner.MAX_FEEDS_PER_SCAN
