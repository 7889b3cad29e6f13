"""The order in which feeds are fetched, and the lower bound of the time for all of them."""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import fsum, inf
from types import MappingProxyType
from typing import TypeAlias

from resources.fetch.frontier.jobs import ALIKE, FILL, PATIENCE


@dataclass(frozen=True, slots=True)
class PlannedFetch:
    """A fetch of one feed. `seconds` is its expected duration; `key` names the feed.

    `host` is the scope of its limits. `is_flagged`: the feed was reported as changed, and comes before the rest.
    """

    key: str
    host: str
    seconds: float
    is_flagged: bool = False


class GapFrom(Enum):
    """The moment from which the gap between two fetches of one host is measured."""

    START = "start"
    """The start of the previous one, as in the frontier."""
    END = "end"
    """Its end: never two at once."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The number of fetches at once, in all (`slots`) and from one host (`in_flight`), and the gap between them."""

    slots: int = 20
    in_flight: int = 1
    gap_seconds: float = 0.0
    gap_from: GapFrom = GapFrom.START

    def __post_init__(self) -> None:
        if self.slots < 1 or self.in_flight < 1 or self.gap_seconds < 0:
            raise ValueError("At least one slot and one fetch in flight, and a gap that is not negative.")
        if self.gap_from is GapFrom.END and self.in_flight > 1:
            raise ValueError("Gaps from the end of a fetch are for one at a time.")

    @property
    def host_limit(self) -> int:
        return min(self.in_flight, self.slots)


@dataclass(frozen=True, slots=True)
class TimeBound:
    """The three lower bounds of all fetches together, in seconds; the highest of them counts.

    `work_seconds`: all slots are busy all the time. `longest_seconds`: the longest single fetch.
    `chain_seconds`: the fetches of one `host` in turn, within its limits.
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
        if self.seconds == self.work_seconds:
            return "all slots are busy all the time"
        if self.seconds == self.longest_seconds:
            return "one fetch takes as long"
        return f"the feeds of {self.host} have to wait for each other"


def lower_bound(
    fetches: Iterable[PlannedFetch], limits: PoolLimits, known: Mapping[str, PoolLimits] = MappingProxyType({})
) -> TimeBound:
    """The lower bound of those fetches: max(Σp ÷ slots, the longest p, the longest of the hosts' chains).

    `known` are the limits of hosts with limits of their own.
    """
    hosts: defaultdict[str, list[float]] = defaultdict(list)
    for fetch in fetches:
        hosts[fetch.host].append(fetch.seconds)
    chains = {host: chain_seconds(seconds, known.get(host, limits)) for host, seconds in hosts.items()}
    host = max(chains, key=lambda name: chains[name], default="")
    every = [seconds for found in hosts.values() for seconds in found]
    return TimeBound(fsum(every) / limits.slots, max(every, default=0.0), chains.get(host, 0.0), host)


def chain_seconds(seconds: Sequence[float], limits: PoolLimits) -> float:
    """The least time that fetches of one host take, with all slots for them.

    With gaps from the end that is Σp + (n − 1) · gap. With gaps from the start: as many at once as the limit allows;
    the last of any number of them cannot begin before the gaps between them are over; and if only one at a time is in
    flight, a short one takes a gap, except the last.
    """
    if not seconds:
        return 0.0
    total = fsum(seconds)
    if limits.gap_from is GapFrom.END:
        return total + (len(seconds) - 1) * limits.gap_seconds
    longest_first = sorted(seconds, reverse=True)
    begun = max(place * limits.gap_seconds + each for place, each in enumerate(longest_first))
    if limits.host_limit > 1:
        return max(total / limits.host_limit, begun)
    turns = [max(each, limits.gap_seconds) for each in seconds]
    saved = max(turn - each for turn, each in zip(turns, seconds, strict=True))
    return fsum(turns) - saved


DECISIVE_SHARE = 0.5
"""A host whose chain is at least this share of the bound may decide the end."""


class FetchOrder(Enum):
    """The order in which a pool takes fetches. In each, flagged ones come before the rest.

    Scans go by the decisive chain; the others are printed beside it.
    """

    DECISIVE_CHAIN = "decisive chain first, else shortest"
    """As in the frontier: the host that will be busy longest, if it may decide the end; else the shortest fetch."""
    LONGEST_CHAIN = "longest chain first"
    """The host that will be busy longest."""
    SHORTEST = "shortest first"
    GIVEN = "as given"


def line_up_fetches(
    fetches: Iterable[PlannedFetch], limits: PoolLimits, order: FetchOrder
) -> Mapping[str, Sequence[PlannedFetch]]:
    """The line of each host's fetches.

    Shortest first, but for hosts that may decide the end: those go by `even_out`, or longest first if only one at a
    time is fetched, so that less is left whenever they have to wait for a slot.
    """
    given = list(fetches)
    hosts: defaultdict[str, list[PlannedFetch]] = defaultdict(list)
    for fetch in given:
        hosts[fetch.host].append(fetch)
    for line in hosts.values():
        line.sort(key=lambda fetch: (not fetch.is_flagged, 0.0 if order is FetchOrder.GIVEN else fetch.seconds))
    if order in (FetchOrder.DECISIVE_CHAIN, FetchOrder.LONGEST_CHAIN):
        decisive = DECISIVE_SHARE * lower_bound(given, limits).seconds
        for host, line in hosts.items():
            if chain_seconds([fetch.seconds for fetch in line], limits) >= decisive:
                hosts[host] = _line_up_decisive(line, limits)
    return hosts


def even_out(shortest_first: Sequence[PlannedFetch]) -> list[PlannedFetch]:
    """Mixes long and short fetches, so that those begun are at any time about as long on average as all of them.

    If several may be in flight, short ones fill the gaps beside a long one. With the shortest first, gaps would delay
    the first half, and the long ones, all at the end, the second. Begins with the longest.
    """
    kept = list(shortest_first)
    mean = fsum(fetch.seconds for fetch in kept) / max(1, len(kept))
    line: list[PlannedFetch] = []
    begun, low, high = 0.0, 0, len(kept) - 1
    while low <= high:
        if begun <= mean * len(line):
            fetch, high = kept[high], high - 1
        else:
            fetch, low = kept[low], low + 1
        begun += fetch.seconds
        line.append(fetch)
    return line


def _line_up_decisive(shortest_first: Sequence[PlannedFetch], limits: PoolLimits) -> list[PlannedFetch]:
    """The line of a host that may decide the end. Flagged fetches still come first."""
    parts = ([fetch for fetch in shortest_first if fetch.is_flagged is flag] for flag in (True, False))
    if limits.host_limit > 1:
        return [fetch for part in parts for fetch in even_out(part)]
    return [fetch for part in parts for fetch in sorted(part, key=lambda fetch: -fetch.seconds)]


_ReadyEntry: TypeAlias = tuple[bool, float, float, int, "HostLine"]


@dataclass(slots=True, eq=False)
class HostLine:
    """A host: its line, the seconds in it, its fetches in flight, the start of the next. `place` tells hosts apart."""

    place: int
    line: deque[PlannedFetch] = field(default_factory=deque)
    seconds: float = 0.0
    in_flight: int = 0
    ready_at: float = 0.0


@dataclass(slots=True)
class ReadyHosts:
    """The hosts that are ready for a fetch. Each is in it once at the most."""

    order: FetchOrder
    limits: PoolLimits
    left_seconds: float = 0.0
    """The seconds of all fetches that wait, also at hosts that are not ready."""
    _line: list[_ReadyEntry] = field(default_factory=list)
    _chains: list[_ReadyEntry] = field(default_factory=list)
    """The same hosts, the longest chain first, where chains may decide."""
    _entries: dict[int, tuple[_ReadyEntry, _ReadyEntry]] = field(default_factory=dict)
    _given: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._line)

    def expect(self, fetches: Sequence[PlannedFetch]) -> None:
        """Notes the given order of fetches about to be added."""
        self.left_seconds += fsum(fetch.seconds for fetch in fetches)
        if self.order is FetchOrder.GIVEN:
            self._given.update((fetch.key, place) for place, fetch in enumerate(fetches))

    def add(self, host: HostLine, now: float) -> None:
        by_key, by_chain = _entry(host, self._key(host, now)), _entry(host, -self._chain_seconds(host))
        self._entries[host.place] = by_key, by_chain
        insort(self._line, by_key)
        if self.order is FetchOrder.DECISIVE_CHAIN:
            insort(self._chains, by_chain)

    def take(self) -> HostLine:
        """Takes the host that comes first. Only while there is one."""
        host = self._decisive_host() or self._line[0][-1]
        for entries, entry in zip((self._line, self._chains), self._entries.pop(host.place), strict=True):
            if entries:
                del entries[bisect_left(entries, entry)]
        self.left_seconds -= host.line[0].seconds
        return host

    def _decisive_host(self) -> HostLine | None:
        """The host with the longest chain, if the rest only just fills the slots beside it and hosts like it."""
        if not self._chains:
            return None
        is_unflagged, chain, *_, host = self._chains[0]
        alike = bisect_right(self._chains, (is_unflagged, chain * ALIKE, inf))
        return host if -chain * (FILL * self.limits.slots + alike) >= self.left_seconds else None

    def _chain_seconds(self, host: HostLine) -> float:
        """The time that the host will be busy, by the frontier's rule: it learns how many may be in flight."""
        return host.seconds + len(host.line) * self.limits.gap_seconds

    def _key(self, host: HostLine, now: float) -> float:
        match self.order:
            case FetchOrder.DECISIVE_CHAIN:
                return now + PATIENCE * host.seconds / len(host.line)
            case FetchOrder.LONGEST_CHAIN:
                return -self._chain_seconds(host)
            case FetchOrder.SHORTEST:
                return host.line[0].seconds
            case FetchOrder.GIVEN:
                return self._given[host.line[0].key]


def _entry(host: HostLine, key: float) -> _ReadyEntry:
    first = host.line[0]
    return (not first.is_flagged, key, first.seconds, host.place, host)
