"""In which order fetches are taken, and how those of one host are put in line. PURE."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from math import fsum

from .bounds import bound, chain_seconds
from .fetches import Fetch, Limits

DECISIVE_SHARE = 0.5
"""A host whose chain is at least so much of the bound may decide when all is done."""


class Order(Enum):
    """In which order a pool takes fetches. What is flagged comes before the rest in each."""

    LONGEST_CHAIN = "longest chain first"
    """The host that will be busy longest, as in the domain queues."""
    DECISIVE_CHAIN = "longest chain while it decides, else shortest"
    """The same while that host has a good part of all the time that is left; else the shortest fetch."""
    SHORTEST = "shortest first"
    GIVEN = "as given"


def lines(fetches: Iterable[Fetch], limits: Limits, order: Order) -> Mapping[str, Sequence[Fetch]]:
    """The fetches of each host, as they are to be put in line there.

    Shortest first, but for hosts that may decide when all is done: those go by `evened`, or longest first where
    one at a time is fetched, so that less is left to do whenever they have to wait for a slot.
    """
    given = list(fetches)
    hosts: defaultdict[str, list[Fetch]] = defaultdict(list)
    for fetch in given:
        hosts[fetch.host].append(fetch)
    for line in hosts.values():
        line.sort(key=_IN_LINE[order])
    if order in (Order.LONGEST_CHAIN, Order.DECISIVE_CHAIN):
        decisive = DECISIVE_SHARE * bound(given, limits).seconds
        for host, line in hosts.items():
            if chain_seconds([fetch.seconds for fetch in line], limits) >= decisive:
                hosts[host] = _decisive(line, limits)
    return hosts


def evened(shortest_first: Sequence[Fetch]) -> list[Fetch]:
    """Long and short ones mixed, so that at any time those begun are about as long on average as all of them.

    Where several may be in flight, the short ones pass the time of the gaps beside a long one. Shortest first, gaps
    hold up the first half and the long ones, all at the end, the second. Begins with the longest.
    """
    kept = list(shortest_first)
    mean = fsum(fetch.seconds for fetch in kept) / max(1, len(kept))
    line: list[Fetch] = []
    begun, low, high = 0.0, 0, len(kept) - 1
    while low <= high:
        if begun <= mean * len(line):
            fetch, high = kept[high], high - 1
        else:
            fetch, low = kept[low], low + 1
        begun += fetch.seconds
        line.append(fetch)
    return line


def _decisive(shortest_first: Sequence[Fetch], limits: Limits) -> list[Fetch]:
    """What is flagged still comes first."""
    parts = ([fetch for fetch in shortest_first if fetch.is_flagged is flag] for flag in (True, False))
    put = evened if limits.host_limit > 1 else _longest_first
    return [fetch for part in parts for fetch in put(part)]


def _longest_first(fetches: Sequence[Fetch]) -> list[Fetch]:
    return sorted(fetches, key=lambda fetch: -fetch.seconds)


def _by_seconds(fetch: Fetch) -> tuple[bool, float]:
    return not fetch.is_flagged, fetch.seconds


def _by_flag(fetch: Fetch) -> tuple[bool, float]:
    return not fetch.is_flagged, 0.0


_IN_LINE: dict[Order, Callable[[Fetch], tuple[bool, float]]] = {
    Order.LONGEST_CHAIN: _by_seconds,
    Order.DECISIVE_CHAIN: _by_seconds,
    Order.SHORTEST: _by_seconds,
    Order.GIVEN: _by_flag,
}
