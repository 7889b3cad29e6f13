"""A fetcher's places for requests in flight, apart for the fast and the slow lane."""

import asyncio

from .jobs import Lane


class Slots:
    """Counts only. What moves from one lane to the other is never refused: its place is free again there."""

    def __init__(self, fast: int, slow: int) -> None:
        self._most: dict[Lane, int] = {"fast": fast, "slow": slow}
        self._taken: dict[Lane, int] = {"fast": 0, "slow": 0}
        self._freed = asyncio.Event()

    @property
    def open_lanes(self) -> list[Lane]:
        """The lanes in which there is room."""
        return [lane for lane, taken in self._taken.items() if taken < self._most[lane]]

    @property
    def taken(self) -> dict[Lane, int]:
        return dict(self._taken)

    def take(self, lane: Lane) -> None:
        self._taken[lane] += 1

    def leave(self, lane: Lane) -> None:
        self._taken[lane] -= 1
        self._freed.set()

    def move(self, lane: Lane, to: Lane) -> None:
        """A request goes on in another lane."""
        self.take(to)
        self.leave(lane)

    async def wait_for_room(self) -> None:
        """Returns when a place has become free."""
        self._freed.clear()
        await self._freed.wait()
