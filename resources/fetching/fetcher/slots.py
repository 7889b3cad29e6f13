"""A fetcher's places for requests in flight, apart for the fast and the slow lane."""

import asyncio

from ..queues.jobs import Lane
from . import observing


class Place:
    """One request's place. It counts in its lane until it is left, or moved."""

    def __init__(self, slots: "Slots", lane: Lane) -> None:
        self.lane = lane
        self._slots = slots

    def move(self, lane: Lane) -> None:
        """Goes on in another lane. That is never refused: the place in the one before is what is wanted."""
        self._slots.count(lane, 1)
        self._slots.count(self.lane, -1)
        self.lane = lane

    def leave(self) -> None:
        self._slots.count(self.lane, -1)


class Slots:
    """Counts. Whoever takes a place in a lane looks first whether it is open."""

    def __init__(self, fast: int, slow: int) -> None:
        self._most: dict[Lane, int] = {"fast": fast, "slow": slow}
        self._taken: dict[Lane, int] = {"fast": 0, "slow": 0}
        self._freed = asyncio.Event()

    @property
    def rooms(self) -> dict[Lane, int]:
        """How many more can be taken, in each lane that is open."""
        return {lane: most - self._taken[lane] for lane, most in self._most.items() if self._taken[lane] < most}

    def taken(self, lane: Lane) -> int:
        return self._taken[lane]

    def take(self, lane: Lane) -> Place:
        self.count(lane, 1)
        return Place(self, lane)

    def count(self, lane: Lane, change: int) -> None:
        self._taken[lane] += change
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
