"""What a scan would do now, beforehand, and what other orders would make of the same work. PURE."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .batches import replay_batches
from .bounds import Bound, bound
from .fetches import Fetch, Limits
from .orders import Order
from .simulating import Replay, replay


@dataclass(frozen=True, slots=True)
class Plan:
    """The fetches in the order in which they begin, the bound, and the same work otherwise.

    `replay.runs[n]` has the ordinal n + 1. Handed over in that order, the fetches of each host are in line as they
    should be. `batches` are of as many as there are slots: `ordered_batches` with the shortest first.
    """

    replay: Replay
    bound: Bound
    shortest_first: Replay
    ordered_batches: Replay
    batches: Replay

    def ratio(self, replay: Replay) -> float:
        """Its makespan ÷ the bound; 1 when there is nothing to do."""
        return replay.makespan_seconds / self.bound.seconds if self.bound.seconds else 1.0


def plan(
    fetches: Sequence[Fetch],
    limits: Limits,
    took: Mapping[str, float] | None = None,
    order: Order = Order.LONGEST_CHAIN,
) -> Plan:
    """The plan of those fetches. With `took`, by key, it is what came of it: the bound is that of the real times."""
    real = took or {}
    as_taken = [replace(each, seconds=real.get(each.key, each.seconds)) for each in fetches]
    return Plan(
        replay=replay(fetches, limits, order, took),
        bound=bound(as_taken, limits),
        shortest_first=replay(fetches, limits, Order.SHORTEST, took),
        ordered_batches=replay_batches(fetches, limits, is_ordered=True, took=took),
        batches=replay_batches(fetches, limits, is_ordered=False, took=took),
    )
