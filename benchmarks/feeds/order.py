"""Orders of fetching 1,597 feeds, in simulated time, against the lower bound. Fetches nothing.

The durations are those of tests/support/feed_populations.py. Databases of up to 100,000 feeds, of which 2,000 are due,
show the cost of choosing and ordering them.
"""

from collections.abc import Iterator
from subprocess import CalledProcessError

from feeds.schedule.order import FetchOrder, GapFrom, PlannedFetch, PoolLimits, lower_bound
from feeds.schedule.simulation import PoolReplay, replay_batches, replay_pool
from tests.support.feed_populations import population

from ..fetch import alone
from ..figures import Figure, Note, median

SEEDS = range(1, 6)
SLOTS = 20
LIMITS = {
    "one at a time, 1 s between": PoolLimits(SLOTS, 1, 1.0, GapFrom.END),
    "one at a time, every 0.5 s": PoolLimits(SLOTS, 1, 0.5),
    "2 at a time, every 0.5 s": PoolLimits(SLOTS, 2, 0.5),
    "4 at a time, every 0.25 s": PoolLimits(SLOTS, 4, 0.25),
}
STRICT = "one at a time, 1 s between"
OURS = FetchOrder.DECISIVE_CHAIN
FEEDS = (100, 10_000, 100_000)
DUE = 2_000


def measure() -> Iterator[Figure | Note]:
    """Medians over five populations."""
    for name, limits in LIMITS.items():
        yield Note(f"{name}:")
        yield from _orders(limits, is_bounded=name == STRICT)
    for database in (alone.SQLITE, alone.POSTGRESQL):
        yield Note(f"{database}:")
        try:
            yield from _scans(database)
        except CalledProcessError as error:
            yield Note(error.stderr.strip().rpartition("\n")[2])


def _scans(database: str) -> Iterator[Figure]:
    for feeds in FEEDS:
        due = min(DUE, feeds // 2)
        at_most = 1.0 if feeds == FEEDS[-1] else None
        chosen, whole = scanned(feeds, due, database)
        yield Figure(f"choosing and ordering {due:,} due of {feeds:,} feeds", chosen, "s", at_most=at_most)
        yield Figure("  with all that the scan does before it hands over", whole, "s", at_most=at_most)


def _orders(limits: PoolLimits, *, is_bounded: bool) -> Iterator[Figure]:
    populations = [population(seed) for seed in SEEDS]
    bounds = [lower_bound(fetches, limits).seconds for fetches in populations]
    for name, replays in _replays(populations, limits):
        ratios = [each.makespan_seconds / least for each, least in zip(replays, bounds, strict=True)]
        most = (1.3 if "unknown" in name else 1.1) if is_bounded and name.startswith(OURS.value) else None
        yield Figure(f"makespan ÷ bound, {name}", median(ratios), at_most=most)
        yield Figure("  mean completion", median([each.mean_completion_seconds for each in replays]), "s")


def _replays(populations: list[list[PlannedFetch]], limits: PoolLimits) -> Iterator[tuple[str, list[PoolReplay]]]:
    unknown = [
        ([PlannedFetch(each.key, each.host, 1.0) for each in fetches], {each.key: each.seconds for each in fetches})
        for fetches in populations
    ]
    yield OURS.value, [replay_pool(fetches, limits, OURS) for fetches in populations]
    yield f"{OURS.value}, durations unknown", [replay_pool(alike, limits, OURS, took) for alike, took in unknown]
    for order in (FetchOrder.LONGEST_CHAIN, FetchOrder.SHORTEST):
        yield order.value, [replay_pool(fetches, limits, order) for fetches in populations]
    for is_ordered, name in ((True, "batches, shortest first"), (False, "batches, as given")):
        yield name, [replay_batches(fetches, limits, is_ordered=is_ordered) for fetches in populations]


def scanned(feeds: int, due: int, database: str = alone.SQLITE) -> tuple[float, float]:
    """Seconds that a scan takes to choose and to order, and in all before it hands over."""
    printed = alone.printed("benchmarks.feeds.due_feeds", str(feeds), str(due), database=database)
    chosen, whole = map(float, printed.split())
    return chosen, whole
