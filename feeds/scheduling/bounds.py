"""How soon all fetches can be done at the very best: no order is faster than this. PURE."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from types import MappingProxyType

from .fetches import Fetch, Gap, Limits


@dataclass(frozen=True, slots=True)
class Bound:
    """The three things that all fetches together have to wait for, in seconds; the longest of them is the bound.

    `work_seconds`: all slots busy all the time. `longest_seconds`: one fetch after which nothing is left.
    `chain_seconds`: those of one `host` one after another, as its limits have it.
    """

    work_seconds: float
    longest_seconds: float
    chain_seconds: float
    host: str

    @property
    def seconds(self) -> float:
        return max(self.work_seconds, self.longest_seconds, self.chain_seconds)

    @property
    def why(self) -> str:
        """Which of the three it is, in words."""
        if self.seconds == self.work_seconds:
            return "all slots are busy all the time"
        if self.seconds == self.longest_seconds:
            return "one fetch takes as long"
        return f"the feeds of {self.host} have to wait for each other"


def bound(fetches: Iterable[Fetch], limits: Limits, known: Mapping[str, Limits] = MappingProxyType({})) -> Bound:
    """The bound of those fetches: max(Σp ÷ slots, the longest p, the longest of the hosts' chains).

    `known` are the limits of hosts that have others.
    """
    hosts: defaultdict[str, list[float]] = defaultdict(list)
    for fetch in fetches:
        hosts[fetch.host].append(fetch.seconds)
    chains = {host: chain_seconds(seconds, known.get(host, limits)) for host, seconds in hosts.items()}
    host = max(chains, key=lambda name: chains[name], default="")
    every = [seconds for found in hosts.values() for seconds in found]
    return Bound(fsum(every) / limits.slots, max(every, default=0.0), chains.get(host, 0.0), host)


def chain_seconds(seconds: Sequence[float], limits: Limits) -> float:
    """How long fetches of one host take at the very best, with all slots for them.

    With gaps from the end that is Σp + (n − 1) · gap. With gaps from the start: as many at once as may be; the last
    of any number of them can't begin before the gaps between them are over; and of those one at a time, a short one
    takes a gap, except the last.
    """
    if not seconds:
        return 0.0
    total = fsum(seconds)
    if limits.gap_from is Gap.END:
        return total + (len(seconds) - 1) * limits.gap_seconds
    longest_first = sorted(seconds, reverse=True)
    begun = max(place * limits.gap_seconds + each for place, each in enumerate(longest_first))
    if limits.host_limit > 1:
        return max(total / limits.host_limit, begun)
    turns = [max(each, limits.gap_seconds) for each in seconds]
    saved = max(turn - each for turn, each in zip(turns, seconds, strict=True))
    return fsum(turns) - saved
