"""A fetcher's places for requests in flight, shared by the fast and the slow lane."""

import asyncio
import time
from collections.abc import Callable

from ..queues.jobs import Lane
from . import observing

LATELY_SECONDS = 60.0
"""What the fast lane has needed is kept for it for so long at the least, and twice as long at the most."""


class Place:
    """One request's place. It counts in its lane until it is left, or moved."""

    def __init__(self, slots: "Slots", lane: Lane) -> None:
        self.lane = lane
        self._slots = slots
        self._is_left = False

    def move(self, lane: Lane) -> None:
        """Goes on in another lane. That is never refused: the place in the one before is what is wanted."""
        self._slots.count(lane, 1)
        self._slots.count(self.lane, -1)
        self.lane = lane

    def leave(self) -> None:
        """Does nothing the second time."""
        if not self._is_left:
            self._is_left = True
            self._slots.count(self.lane, -1)


class Slots:
    """Counts. Whoever takes a place in a lane looks first whether it is open.

    Either may have what the other leaves. But what is slow stays long, so that what is fast must find room at once:
    the slow lane takes no more than half of the places, and of the other half what the fast one has not needed of
    late, but for a fifth of all, which it never takes. What is fast is over soon: as long as the slow lane has less
    than half, the next free place is its. In all there are no more than `total`, but for what has moved to the slow
    lane.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self._kept = max(1, total // 5)
        self._half = max(self._kept, total // 2)
        self._taken: dict[Lane, int] = {"fast": 0, "slow": 0}
        self._clock = clock
        self._peak, self._peak_before, self._since = 0, 0, clock()
        self._freed = asyncio.Event()

    @property
    def rooms(self) -> dict[Lane, int]:
        """How many more can be taken, in each lane that is open: the one that is to come first is first."""
        fast, slow = self._taken["fast"], self._taken["slow"]
        left = self.total - fast - slow
        lanes: list[tuple[Lane, int]] = [
            ("fast", max(left, self._kept - fast)),
            ("slow", min(left, self.total - self._reserved() - slow)),
        ]
        if slow < self._half:
            lanes.reverse()
        return {lane: room for lane, room in lanes if room > 0}

    @property
    def forgets_in(self) -> float:
        """Seconds until the slow lane may open though no place is left: less is kept for the fast one then."""
        return max(0.0, self._since + LATELY_SECONDS - self._clock())

    def taken(self, lane: Lane) -> int:
        return self._taken[lane]

    def take(self, lane: Lane) -> Place:
        self.count(lane, 1)
        return Place(self, lane)

    def count(self, lane: Lane, change: int) -> None:
        self._taken[lane] += change
        self._remember()
        observing.in_flight(lane, change)
        if change < 0:
            self._freed.set()

    def wake(self) -> None:
        """Whoever waits for room looks again."""
        self._freed.set()

    async def wait_for_room(self) -> None:
        """Returns when a place has become free."""
        self._freed.clear()
        await self._freed.wait()

    def _reserved(self) -> int:
        """Places that the slow lane does not begin in."""
        self._remember()
        return min(max(self._peak, self._peak_before, self._kept), self.total - self._half)

    def _remember(self) -> None:
        """Most at once in the fast lane, since the last full minute and in the one before."""
        now, fast = self._clock(), self._taken["fast"]
        if now - self._since >= 2 * LATELY_SECONDS:
            self._peak = fast
        if now - self._since >= LATELY_SECONDS:
            self._peak_before, self._peak, self._since = self._peak, fast, now
        self._peak = max(self._peak, fast)
