"""Hosts with what waits for them, and which of those that may be asked comes first. PURE."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import fsum
from typing import TypeAlias

from .fetches import Fetch, Gap, Limits
from .orders import Order

HORIZON_SHARE = 0.3
"""A host decides when it will be busy for so much of the time that all the rest takes."""

_Entry: TypeAlias = tuple[bool, float, float, int, int, "Host"]


@dataclass(slots=True, eq=False)
class Host:
    """Its line, the seconds in it, how many are in flight, and when the next may begin. `place` tells hosts apart."""

    place: int
    line: deque[Fetch] = field(default_factory=deque)
    seconds: float = 0.0
    in_flight: int = 0
    ready_at: float = 0.0
    turns: int = 0
    """How often a fetch was added or begun: what was noted of it before holds no more."""

    def queued_seconds(self, limits: Limits) -> float:
        """How long it will be busy, as the domain queues reckon: they learn how many may be in flight, and count on
        one."""
        return self.seconds + len(self.line) * limits.gap_seconds

    def busy_seconds(self, limits: Limits) -> float:
        """How long it will be busy at the least, knowing how many may be in flight."""
        gaps = len(self.line) * limits.gap_seconds
        if limits.gap_from is Gap.END:
            return self.seconds + gaps
        # Its longest is one of these two, or in the middle of a line that takes longer than any of them anyway.
        return max(self.seconds / limits.host_limit, gaps, self.line[0].seconds, self.line[-1].seconds)


@dataclass(slots=True)
class Ready:
    """Hosts that may be asked. Each is in it once at the most."""

    order: Order
    limits: Limits
    waiting_seconds: float = 0.0
    """Of all that has not begun, at hosts that are ready or not."""
    _first: list[_Entry] = field(default_factory=list)
    _shortest: list[_Entry] = field(default_factory=list)
    _longest: list[_Entry] = field(default_factory=list)
    """All hosts with a line, the one that is busy longest on top. Old entries are passed over."""
    _given: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        self._clean(self._first)
        return bool(self._first)

    def expect(self, fetches: Sequence[Fetch]) -> None:
        """What is about to be added, in the order in which it was given."""
        self.waiting_seconds += fsum(fetch.seconds for fetch in fetches)
        if self.order is Order.GIVEN:
            self._given.update((fetch.key, place) for place, fetch in enumerate(fetches))

    def note(self, host: Host) -> None:
        """Its line has changed."""
        host.turns += 1
        if self.order is Order.DECISIVE_CHAIN and host.line:
            heappush(self._longest, self._entry(host, -host.busy_seconds(self.limits)))

    def add(self, host: Host) -> None:
        """It may be asked from now on."""
        heappush(self._first, self._entry(host, self._key(host)))
        if self.order is Order.DECISIVE_CHAIN:
            heappush(self._shortest, self._entry(host, host.line[0].seconds))

    def take(self) -> Host:
        """The one that comes first. Only while there is one."""
        self._clean(self._first)
        heap = self._first
        if self.order is Order.DECISIVE_CHAIN and not self._decides(self._first[0][-1]):
            self._clean(self._shortest)
            heap = self._shortest
        return heappop(heap)[-1]

    def _decides(self, host: Host) -> bool:
        while self._longest[0][-1].turns != self._longest[0][-2]:
            heappop(self._longest)
        horizon = max(self.waiting_seconds / self.limits.slots, -self._longest[0][1])
        return host.busy_seconds(self.limits) >= HORIZON_SHARE * horizon

    def _key(self, host: Host) -> float:
        match self.order:
            case Order.LONGEST_CHAIN:
                return -host.queued_seconds(self.limits)
            case Order.DECISIVE_CHAIN:
                return -host.busy_seconds(self.limits)
            case Order.SHORTEST:
                return host.line[0].seconds
            case Order.GIVEN:
                return self._given[host.line[0].key]

    def _entry(self, host: Host, key: float) -> _Entry:
        first = host.line[0]
        return not first.is_flagged, key, first.seconds, host.place, host.turns, host

    def _clean(self, heap: list[_Entry]) -> None:
        """Removes what is no longer so from the top."""
        while heap and heap[0][-1].turns != heap[0][-2]:
            heappop(heap)
