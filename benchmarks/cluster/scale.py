"""What large loads need, and what is full first: a simulation from measured costs. Nothing is started."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf
from random import Random

from ..figures import Note, percentile
from . import costs, load_needs, queueing
from .costs import ASSUMED, GB, MB, TB, Cost, Row
from .load_needs import MACHINE_BYTES, MACHINE_CORES, MACHINE_NETWORK, MOST_BUSY, Load, Needs, needs_of

LOADS: Mapping[str, Load] = {
    "10⁸ URLs": Load(urls=1e8),
    "10⁶ feeds": Load(feeds=1e6),
    "10⁵ waiting clients": Load(waiting=1e5),
    "10⁵ hits a second": Load(hits=1e5),
    "all together": Load(urls=1e8, feeds=1e6, waiting=1e5, hits=1e5),
}
PAINTER_WAIT_SECONDS = 0.1
SIMULATED_CLIENTS, SEED = 200_000, 1
HOT_SECONDS = (5, 60, 600)
CACHES = (8, 32, 128)
"""GB."""
SCAN_FEEDS = 5_000
"""As `feeds.scan.scanner` takes; the rest is due at the next scan, a minute later."""
NOT_FULL = 1e6
"""A limit that so many times the load does not reach is none."""
STEPS = 40


@dataclass(frozen=True, slots=True)
class Limit:
    """What one machine, or one site with its defaults, has of something, and what a load needs of it."""

    part: str
    has: str
    capacity: float
    needed: Callable[[Needs], float]


SETTINGS = (
    Limit("clients of the waiting instance, `RETRY_WORKERS`", "20,000", 20_000, lambda needs: needs.clients),
    Limit("requests in flight of a fetcher, `FETCH_SLOTS`", "100", 100, lambda needs: needs.fetch_slots),
    Limit("feeds of a scan, `FEEDS_SCAN_SECONDS`", "5,000 a minute", SCAN_FEEDS / 60, lambda needs: needs.due_feeds),
)
"""Limits that a setting lifts."""
PARTS = (
    Limit("a front's network", "10 Gbit/s", MACHINE_NETWORK, lambda needs: needs.front_network),
    Limit("a front's nginx", "8 cores", MACHINE_CORES, lambda needs: needs.front_cpu),
    Limit("main", "8 cores", MACHINE_CORES, lambda needs: needs.main_cpu),
    Limit("painters that compute", "8 cores", MACHINE_CORES, lambda needs: needs.painting_cpu),
    Limit("painters that wait for others", "32 GB", MACHINE_BYTES, lambda needs: needs.sleeping_bytes),
    Limit("a fetcher", "1 core", 1, lambda needs: needs.fetch_cpu),
    Limit("`state`, one server", "1 core", 1, lambda needs: needs.state_cpu),
    Limit("`state`, the frontier's partition", "1 core", 1, lambda needs: needs.frontier_cpu),
    Limit("`cache`", "1 core", 1, lambda needs: needs.cache_cpu),
    Limit("the database's CPU", "8 cores", MACHINE_CORES, lambda needs: needs.database_cpu),
    Limit("the database's disk", "1 TB", TB, lambda needs: needs.row_bytes + needs.index_bytes),
)


def measure() -> Iterator[Note]:
    """Prints the tables of `docs/scale.md`."""
    for lines in (needs_table(), full_table(SETTINGS), full_table(PARTS), costs_table()):
        yield from map(Note, lines)
        yield Note("")


def costs_table() -> Sequence[str]:
    """Every cost with its source, measured ones first."""
    known = list(vars(costs).values())
    found = sorted((cost for cost in known if isinstance(cost, Cost)), key=lambda cost: cost.source == ASSUMED)
    lines = [row.line for row in known if isinstance(row, Row)] + [cost.line for cost in found]
    return ["| unit | cost | source |", "|---|---|---|", *lines]


def needs_table() -> Sequence[str]:
    """What each load needs, by part of the site."""
    columns = [_column(load) for load in LOADS.values()]
    rows = [f"| {name} | {' | '.join(column[name] for column in columns)} |" for name in columns[0]]
    return [f"| | {' | '.join(LOADS)} |", "|---|" + "---:|" * len(LOADS), *rows]


@lru_cache
def _column(load: Load) -> Mapping[str, str]:
    needs = needs_of(load)
    return {**_hits(load, needs), **_machines(load, needs), **_stores(load, needs), **_bandwidth(load, needs)}


def _hits(load: Load, needs: Needs) -> Mapping[str, str]:
    fronts = needs.fronts
    answered, evicted = "–", "–"
    if load.hits:
        asked = [load_needs.asked_of_main(load, fronts, hot_seconds=seconds).rate for seconds in HOT_SECONDS]
        answered = _listed(f"{1 - rate / load.hits:.0%}" for rate in asked)
        evicted = _listed(f"{load_needs.evicted_share(load, fronts, size * GB):.1%}" for size in CACHES)
    return {
        "`front`: machines": f"{fronts:,}" if load.hits or load.waiting else "–",
        f"hits that nginx answers by itself, with `HOT_SECONDS` of {_listed(HOT_SECONDS)}": answered,
        f"hits that a `cache` of {_listed(CACHES)} GB has evicted": evicted,
    }


def _listed(values: Iterable[object]) -> str:
    return "; ".join(map(str, values))


def _machines(load: Load, needs: Needs) -> Mapping[str, str]:
    painters = ceil(needs.painting_cpu / MOST_BUSY)
    return {
        "`main`: cores busy; machines": _cores(needs.main_cpu),
        "`retry`: processes; memory": _waiting(needs),
        "`paint`, computing: painters; machines": _of_machines(painters, painters / MACHINE_CORES),
        "the fewest that keep cold content waiting for 0.1 s at most, on average: painters; mean; p99": _waits(load),
        "`paint`, waiting for others: painters; machines": _of_machines(
            ceil(needs.sleeping_bytes / costs.PAINTER_BYTES.value / MOST_BUSY),
            needs.sleeping_bytes / MACHINE_BYTES / MOST_BUSY,
        ),
        "`fetch`: fetchers of 100 slots; cores busy": _fetchers(needs),
        "`work`: cores busy": _amount(needs.work_cpu),
    }


def _waits(load: Load) -> str:
    """Painters, and how long cold contents wait for one: the mean by Erlang, p99 as simulated."""
    if not load.cold_rate:
        return "–"
    seconds = costs.PAINT_SECONDS.value
    painters = queueing.servers_for(load.cold_rate, seconds, wait_seconds=PAINTER_WAIT_SECONDS, most_busy=1)

    def painted(luck: Random) -> float:
        return luck.expovariate(1 / seconds)

    waits = queueing.simulated_waits(painters, load.cold_rate, painted, clients=SIMULATED_CLIENTS, seed=SEED)
    mean, late = queueing.mean_wait(painters, load.cold_rate, seconds), percentile(waits, 0.99)
    return f"{painters}; {mean:.2f}; {late:.2f} s"


def _waiting(needs: Needs) -> str:
    if not needs.clients:
        return "–"
    return f"{ceil(needs.clients / 20_000 / MOST_BUSY)}; {_bytes(costs.CLIENT_BYTES * needs.clients)}"


def _fetchers(needs: Needs) -> str:
    if not needs.fetch_slots:
        return "–"
    return f"{ceil(max(needs.fetch_slots / 100, needs.fetch_cpu) / MOST_BUSY)}; {_amount(needs.fetch_cpu)}"


def _stores(load: Load, needs: Needs) -> Mapping[str, str]:
    return {
        "`state`: of one core; of it the frontier's": f"{needs.state_cpu:.0%}; {needs.frontier_cpu:.0%}",
        "`state`: memory": _bytes(needs.state_bytes),
        "`cache`: of one core": f"{needs.cache_cpu:.0%}",
        "`cache`: memory, to evict no more than is cold": _bytes(load_needs.cached_bytes(load, needs.fronts))
        if load.hits
        else "–",
        "database: rows": _millions(needs.rows),
        "database: tables; indexes": f"{_bytes(needs.row_bytes)}; {_bytes(needs.index_bytes)}" if needs.rows else "–",
        "database: cores busy": _amount(needs.database_cpu),
        "bucket; uploads a second": f"{_bytes(needs.bucket_bytes)}; {needs.uploads:.0f}" if needs.uploads else "–",
    }


def _bandwidth(load: Load, needs: Needs) -> Mapping[str, str]:
    return {
        "to clients": _bits(needs.front_network),
        "from other servers; fetches a second": f"{_bits(needs.fetch_network)}; {load.fetch_rate:.0f}"
        if load.fetch_rate
        else "–",
    }


def full_table(limits: Sequence[Limit]) -> Sequence[str]:
    """The part of its load at which each limit is reached, of a site that has one of each; what is first is bold."""
    found = {name: [full_at(limit, load) for limit in limits] for name, load in LOADS.items()}
    rows = [
        f"| {limit.part} | {limit.has} | {' | '.join(_share(found[name], place) for name in LOADS)} |"
        for place, limit in enumerate(limits)
    ]
    return [f"| | one has | {' | '.join(LOADS)} |", "|---|---|" + "---:|" * len(LOADS), *rows]


def full_at(limit: Limit, load: Load) -> float:
    """The multiple of a load at which a limit is reached. Infinite if it is not within a million times the load."""
    if limit.needed(needs_of(load.times(NOT_FULL))) < limit.capacity:
        return inf
    least, most = 1 / NOT_FULL, NOT_FULL
    for _ in range(STEPS):
        middle = (least * most) ** 0.5
        reached = limit.needed(needs_of(load.times(middle))) >= limit.capacity
        least, most = (least, middle) if reached else (middle, most)
    return most


def _share(found: Sequence[float], place: int) -> str:
    share = found[place]
    if share == inf:
        return "–"
    text = f"{share:.0%}" if share < 2 else f"{_amount(share)} ×"
    return f"**{text}**" if share == min(found) else text


def _cores(cores: float) -> str:
    return f"{_amount(cores)}; {ceil(cores / MACHINE_CORES / MOST_BUSY)}" if cores else "–"


def _of_machines(number: int, machines: float) -> str:
    return f"{number:,}; {ceil(machines)}" if number else "–"


def _amount(number: float) -> str:
    if not number:
        return "–"
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _millions(number: float) -> str:
    return f"{number / 1e6:,.0f} million" if number else "–"


def _bytes(number: float) -> str:
    if number < GB / 10:
        return f"{number / MB:.0f} MB" if number else "–"
    return f"{_amount(number / TB)} TB" if number >= TB else f"{_amount(number / GB)} GB"


def _bits(number: float) -> str:
    return f"{_amount(number * 8 / 1e9)} Gbit/s" if number else "–"
