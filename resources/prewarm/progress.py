"""The progress, the result and the speed limits of a run. Times are monotonic seconds, passed in. PURE."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from ..humanize import estimate_duration

RATE_PERIOD_SECONDS = 60.0
"""The period over which the rate is measured."""


@dataclass(slots=True)
class RunProgress:
    """The settled pieces of `total` (None: not known), the tiles prepared, and the moments of both."""

    total: int | None
    began: float
    settled: int = 0
    tiles: int = 0
    _moments: list[tuple[float, int, int]] = field(default_factory=list)

    def settle(self, tiles: int, now: float) -> None:
        """Notes a settled piece and the tiles prepared for it: 0 if it was skipped."""
        self.settled += 1
        self.tiles += tiles
        if not self._moments or now - self._moments[-1][0] >= 1.0:
            self._moments.append((now, self.settled, self.tiles))
            while len(self._moments) > 2 and now - self._moments[1][0] > RATE_PERIOD_SECONDS:
                del self._moments[0]

    def tiles_per_second(self, now: float) -> float:
        then, _, tiles = self._since()
        return (self.tiles - tiles) / max(now - then, 0.001)

    def seconds_left(self, now: float) -> float | None:
        """Returns the estimated time left; None as long as there is no estimate."""
        then, settled, _ = self._since()
        if self.total is None or self.settled <= settled or now <= then:
            return None
        return max(0, self.total - self.settled) * (now - then) / (self.settled - settled)

    def describe(self, now: float) -> str:
        """Returns `1,200 of 5,461, 310 tiles/s, 14 s left`."""
        of = "" if self.total is None else f" of {max(self.total, self.settled):,}"
        left = self.seconds_left(now)
        return (
            f"{self.settled:,}{of} pieces, {self.tiles_per_second(now):,.1f} tiles/s"
            f"{'' if left is None else f', about {estimate_duration(left)} left'}"
        )

    def _since(self) -> tuple[float, int, int]:
        return self._moments[0] if len(self._moments) > 1 else (self.began, 0, 0)


MAX_FAILURE_EXAMPLES = 5

PieceOutcome = Literal["prepared", "fresh", "elsewhere", "gone", "failed"]
"""`elsewhere`: another run, or a client's request, has had it prepared meanwhile. `gone`: so is its layer."""


@dataclass(frozen=True, slots=True)
class RunPace:
    """The limits of a run: pieces in hand at a time, tiles a second, and seconds after which no more is begun."""

    concurrency: int = 4
    tiles_per_second: float | None = None
    duration_seconds: float | None = None


@dataclass(slots=True)
class RunTally:
    """The pieces by outcome, the tiles prepared, the addresses in the hot cache."""

    pieces: Counter[PieceOutcome] = field(default_factory=Counter)
    tiles: int = 0
    hot: int = 0
    yielded_seconds: float = 0.0
    work_seconds: float = 0.0
    """The seconds that workers took for the prepared pieces."""
    kinds: Counter[str] = field(default_factory=Counter)
    """The contents of these pieces by kind."""
    failures: dict[str, str] = field(default_factory=dict)
    broken: str = ""
    """The reason why the run could not go on."""

    def count(self, outcome: PieceOutcome, tiles: int = 0) -> None:
        self.pieces[outcome] += 1
        self.tiles += tiles

    def fail(self, work_key: str, why: str) -> None:
        self.count("failed")
        if len(self.failures) < MAX_FAILURE_EXAMPLES:
            self.failures[work_key] = why

    def describe(self) -> str:
        """`12 pieces prepared (192 tiles), 3 fresh already, 1 by others, 0 failed; 192 tiles in the hot cache.`"""
        found = self.pieces
        gone = f"{found['gone']:,} of layers that are gone, " if found["gone"] else ""
        return (
            f"{found['prepared']:,} pieces prepared ({self.tiles:,} tiles), {found['fresh']:,} fresh already, "
            f"{found['elsewhere']:,} by others, {gone}{found['failed']:,} failed; {self.hot:,} tiles in the hot cache, "
            f"{self.yielded_seconds:.1f} s left to those who waited."
        )
