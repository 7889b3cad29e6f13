"""The frontier in simulated time: origins with secret limits, and lanes under load."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from statistics import fmean

import pytest
from pytest_django import Settings

from feeds.schedule.order import FetchOrder, PlannedFetch, PoolLimits, lower_bound
from feeds.schedule.simulation import replay_pool
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import FILL
from resources.fetch.frontier.politeness import Politeness
from retry import stores
from tests.support import frontier
from tests.support.feed_populations import population
from tests.support.frontier_clock import Clock
from tests.support.frontier_simulation import (
    Arrival,
    Fetcher,
    LimitedScan,
    Simulation,
    drain,
    merged,
    poisson,
    waits_by_recursion,
)
from tests.support.simulated_origin import Origin

run = stores.run_steps


def secret(**origins: Origin) -> dict[str, Origin]:
    return {f"{name}.example.com": origin for name, origin in origins.items()}


def test_secret_rates_are_found_and_kept(clock: Clock) -> None:
    origins = secret(
        a=Origin(rate=5), b=Origin(rate=8, latency=0.4, burst=3), c=Origin(rate=4, latency=0.05, retry_after=2)
    )
    Simulation(clock, origins).run_until(120)
    served = {name: origin.served_between(50, 120) / 70 / origin.rate for name, origin in origins.items()}
    assert all(share >= 0.8 for share in served.values()), served
    refused = sum(origin.refused_between(50, 120) for origin in origins.values())
    assert refused <= 0.01 * sum(origin.served_between(50, 120) for origin in origins.values())
    assert all(origin.refused_between(50, 120) <= 0.015 * origin.served_between(50, 120) for origin in origins.values())
    assert [origin.too_early for origin in origins.values()] == [0] * 3
    assert all(origin.peak <= 4 for origin in origins.values())


def test_nobody_is_asked_more_often_than_the_ceilings_allow(clock: Clock) -> None:
    origin = Origin(rate=1000, latency=0.3, burst=100)
    Simulation(clock, secret(a=origin)).run_until(120)
    assert origin.refused == []
    assert max(origin.served_between(at, at + 0.999) for at in origin.taken) <= 10
    assert origin.served_between(100, 120) / 20 >= 9.5
    assert origin.peak <= 4


def test_an_origin_that_becomes_slow_is_asked_more_slowly_until_it_is_quick_again(clock: Clock) -> None:
    origin = Origin(rate=1000, burst=100)
    simulation = Simulation(clock, secret(a=origin))
    simulation.run_until(60)
    origin.latency = 4
    simulation.run_until(160)
    slow = [at for at in origin.taken if at >= 120]
    assert min(later - earlier for earlier, later in pairwise(slow)) >= 0.98 * origin.latency / 4 / 4
    assert len(slow) >= 0.9 * 40 * 2 / origin.latency
    origin.latency = 0.1
    simulation.run_until(200)
    assert origin.served_between(180, 200) / 20 >= 9


def test_a_limit_that_doubles_is_followed_within_a_minute(clock: Clock, settings: Settings) -> None:
    settings.FETCH_MAX_PER_SECOND = 50
    origins = secret(a=Origin(rate=4), b=Origin(rate=8, latency=0.05, retry_after=2))
    simulation = Simulation(clock, origins)
    simulation.run_until(60)  # it was refused some times, and is near the limit
    for origin in origins.values():
        origin.rate *= 2
    simulation.run_until(140)
    shares = [origin.served_between(120, 140) / 20 / origin.rate for origin in origins.values()]
    assert all(share >= 0.8 for share in shares), shares
    assert all(origin.refused_between(40, 140) <= 0.01 * origin.served_between(40, 140) for origin in origins.values())


def test_a_site_that_asks_for_long_pauses_is_seldom_probed(clock: Clock) -> None:
    origin = Origin(rate=2, retry_after=60)
    Simulation(clock, secret(a=origin)).run_until(500)
    assert origin.refused_between(100, 500) <= 2
    assert origin.served_between(100, 500) / 400 >= 0.75 * 2


def test_a_limit_that_halves_is_followed_at_once(clock: Clock, settings: Settings) -> None:
    settings.FETCH_MAX_PER_SECOND = 50
    origin = Origin(rate=16)
    simulation = Simulation(clock, secret(a=origin))
    simulation.run_until(40)
    origin.rate = 8
    simulation.run_until(80)
    assert origin.refused_between(40, 80) <= 12
    assert origin.served_between(60, 80) / 20 >= 0.8 * 8


def test_a_limit_of_requests_at_once_is_found(clock: Clock) -> None:
    origin = Origin(rate=1000, latency=1.0, most_at_once=3)
    Simulation(clock, secret(a=origin)).run_until(200)
    assert origin.served_between(100, 200) / 100 >= 0.8 * 3
    assert origin.refused_between(100, 200) <= 0.02 * origin.served_between(100, 200)


SHORT, LONG = 1.0, 10.0
LOAD = 0.8
"""Of each of the two workers: by short jobs the one, by long jobs the other."""


def test_in_lanes_short_jobs_do_not_wait_for_long_ones_and_these_for_one_short_one_at_the_most(clock: Clock) -> None:
    both = merged(poisson(LOAD / SHORT, SHORT, 300, seed=1), poisson(LOAD / LONG, LONG, 30, seed=2))
    waits = Fetcher(clock, places=2).waits(both, lambda arrival: "fast" if arrival.seconds == SHORT else "slow")
    for seconds, more in ((SHORT, 0.0), (LONG, SHORT)):
        lane = [place for place, arrival in enumerate(both) if arrival.seconds == seconds]
        alone = waits_by_recursion([both[place] for place in lane], 1)
        assert all(waits[place] <= wait + more + 0.01 for place, wait in zip(lane, alone, strict=True))


def test_short_jobs_find_room_at_once_beside_long_ones_that_all_came_before_them(clock: Clock) -> None:
    flood = [Arrival(0.1 * number, LONG) for number in range(12)]
    short = [Arrival(SHORT + 2 * SHORT * number + 0.5, SHORT) for number in range(14)]
    waits = Fetcher(clock, places=5).waits([*flood, *short], lambda job: "fast" if job.seconds == SHORT else "slow")
    at_once = [wait for wait in waits[: len(flood)] if wait < SHORT]
    assert len(at_once) == 4, "nobody has needed the places of the fast lane, but for the one that is kept"
    assert waits[len(flood) :] == pytest.approx([0.0] * len(short), abs=0.01)


def test_all_is_done_as_early_as_with_the_most_left_first_and_earlier_on_average(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = population(1)[:400]
    makespans, means = [], []
    for fill in (1e9, FILL):  # without an end of that, every domain decides
        rules = Politeness(slots=10, lease_seconds=600, fill=fill)
        monkeypatch.setattr(queue, "configured_politeness", cache(lambda rules=rules: rules))
        ends = drain(clock, [replace(each, host=f"{fill}.{each.host}") for each in fetches], 10)
        makespans.append(max(ends))
        means.append(fmean(ends))
    assert makespans[1] <= 1.01 * makespans[0]
    assert means[1] <= 0.6 * means[0]


def test_two_fetchers_with_domains_of_their_own_are_done_about_as_early_as_one_with_all_slots(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches, makespans = population(1)[:400], []
    for machines in (1, 2):
        rules = Politeness(slots=10 // machines, lease_seconds=600)
        monkeypatch.setattr(queue, "configured_politeness", cache(lambda rules=rules: rules))
        ends = drain(clock, [replace(each, host=f"{machines}.{each.host}") for each in fetches], 10, machines)
        makespans.append(max(ends))
    assert makespans[1] <= 1.1 * makespans[0], makespans


SLOTS = 20


def limited_scan(clock: Clock, monkeypatch: pytest.MonkeyPatch, limit: int) -> LimitedScan:
    """Scans by one fetcher whose leases, as those of a living one, do not lapse."""
    rules = Politeness(slots=SLOTS, lease_seconds=600)
    monkeypatch.setattr(queue, "configured_politeness", cache(lambda: rules))
    return LimitedScan(clock, SLOTS, limit)


def least_seconds(fetches: Sequence[PlannedFetch], limit: int) -> float:
    """The bound by the limit of the origin and the ceilings of politeness."""
    rules = Politeness()
    most = min(limit or rules.most_in_flight, rules.most_in_flight)
    return lower_bound(fetches, PoolLimits(SLOTS, most, rules.least_delay_seconds)).seconds


def in_planned_order(fetches: Sequence[PlannedFetch]) -> list[PlannedFetch]:
    limits = PoolLimits(SLOTS, Politeness().in_flight, Politeness().delay_seconds)
    return [run.fetch for run in replay_pool(fetches, limits, FetchOrder.DECISIVE_CHAIN).runs]


@pytest.mark.parametrize(("limit", "most"), [(1, 1.05), (2, 1.1), (0, 1.05)], ids=["1", "2", "unlimited"])
def test_a_hidden_limit_of_requests_in_flight_is_used_in_full_from_the_second_scan_on(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, limit: int, most: float
) -> None:
    scans = limited_scan(clock, monkeypatch, limit)
    feeds = in_planned_order([replace(each, seconds=each.seconds / 2) for each in population()])
    scans.run(feeds)
    for _ in range(2):
        clock.pass_by(900)
        assert scans.run(feeds) <= most * least_seconds(feeds, limit)
        assert scans.refused <= 0.005 * scans.asked if limit else scans.refused == 0


def feeds_in_a_row(total_seconds: float) -> list[PlannedFetch]:
    feeds = [each for each in population() if each.host == "host0.example" and each.seconds < 10]
    share = total_seconds / sum(each.seconds for each in feeds)
    return [replace(each, seconds=each.seconds * share) for each in feeds]


def test_a_host_that_allows_one_at_a_time_is_not_learnt_as_slow(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    scans, feeds = limited_scan(clock, monkeypatch, 1), feeds_in_a_row(25)
    took = []
    for _ in range(6):
        took.append(scans.run(feeds) / least_seconds(feeds, 1))
        clock.pass_by(900)
    assert took[0] <= 1.3
    assert all(ratio <= 1.1 for ratio in took[1:]), took


def test_what_an_earlier_version_learnt_as_slow_is_found_to_be_a_limit_in_flight(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans, feeds = limited_scan(clock, monkeypatch, 1), feeds_in_a_row(25)
    learnt = {"delay": 1600, "mean": 1600, "floor": 1000, "cap": 1.4, "cap_refused": 2, "phase": 0.2, "asked": 1000}
    frontier.learn("host0.example", **learnt)
    for _ in range(4):
        took = scans.run(feeds) / least_seconds(feeds, 1)
        clock.pass_by(900)
    assert took <= 1.1


def test_a_limit_in_flight_that_is_lifted_is_noticed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    scans, feeds = limited_scan(clock, monkeypatch, 1), feeds_in_a_row(25)
    scans.run(feeds)
    scans.limit = 0
    for _ in range(6):
        clock.pass_by(900)
        took = scans.run(feeds) / least_seconds(feeds, 0)
    assert took <= 1.1
    assert scans.refused == 0
