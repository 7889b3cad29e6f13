"""What came of a run, and how fast it may go. PURE."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

MOST_EXAMPLES = 5

Outcome = Literal["prepared", "fresh", "elsewhere", "gone", "failed"]
"""`elsewhere`: another run, or somebody who asked, has had it prepared meanwhile. `gone`: so is its layer."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Pieces in hand at a time; tiles a second at most, and seconds after which no more is begun, if there are."""

    concurrency: int = 4
    tiles_per_second: float | None = None
    duration_seconds: float | None = None


@dataclass(slots=True)
class Tally:
    """Pieces by what became of them, tiles that were prepared, addresses in the hot cache."""

    pieces: Counter[Outcome] = field(default_factory=Counter)
    tiles: int = 0
    hot: int = 0
    yielded_seconds: float = 0.0
    failures: dict[str, str] = field(default_factory=dict)
    broken: str = ""
    """Why the run could not go on."""

    def count(self, outcome: Outcome, tiles: int = 0) -> None:
        self.pieces[outcome] += 1
        self.tiles += tiles

    def fail(self, work_key: str, why: str) -> None:
        self.count("failed")
        if len(self.failures) < MOST_EXAMPLES:
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
