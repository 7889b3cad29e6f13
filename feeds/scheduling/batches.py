"""Plain batches: so many fetches at once, and the next ones when the slowest is done. PURE.

That is how fetching is done in many places, and what the pool is compared with.
"""

from collections.abc import Iterator, Mapping, Sequence

from .fetches import Fetch, Limits
from .orders import Order
from .simulating import Pool, Replay, Run


def batches(fetches: Sequence[Fetch], size: int, *, is_ordered: bool) -> Iterator[Sequence[Fetch]]:
    """The fetches in batches of that size: as given, or the shortest first."""
    line = sorted(fetches, key=lambda fetch: fetch.seconds) if is_ordered else fetches
    for place in range(0, len(line), size):
        yield line[place : place + size]


def replay_batches(
    fetches: Sequence[Fetch], limits: Limits, *, is_ordered: bool, took: Mapping[str, float] | None = None
) -> Replay:
    """What happens when they are fetched in batches of as many as there are slots, under the same limits of hosts."""
    pool = Pool(limits, Order.GIVEN, took or {})
    runs: list[Run] = []
    for batch in batches(fetches, limits.slots, is_ordered=is_ordered):
        pool.add(batch)
        runs += pool.run()
    return Replay(tuple(runs))
