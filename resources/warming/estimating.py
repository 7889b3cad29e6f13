"""How long it takes to prepare tiles, and how many bytes they have, from what was recorded. PURE."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

UNKNOWN_SECONDS = 1.0
"""What a piece of work takes of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What is known of one layer, by zoom: seconds of a piece of work, mean bytes of a tile."""

    seconds: Mapping[int, float]
    tile_bytes: Mapping[int, float]

    def seconds_at(self, zoom: int) -> float:
        """That of the zoom, else of the nearest that is known."""
        known = nearest(self.seconds, zoom)
        return UNKNOWN_SECONDS if known is None else known

    def bytes_at(self, zoom: int) -> float | None:
        """The same for a tile's bytes; None where no tile is known."""
        return nearest(self.tile_bytes, zoom)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What some zooms of a layer amount to; `size_bytes` is None where no size is known."""

    tiles: int = 0
    works: int = 0
    seconds: float = 0.0
    size_bytes: float | None = 0.0

    @classmethod
    def of(cls, zoom: int, tiles: int, works: int, costs: Costs) -> Self:
        known = costs.bytes_at(zoom)
        return cls(tiles, works, works * costs.seconds_at(zoom), None if known is None else tiles * known)

    def __add__(self, other: Self) -> Self:
        sizes = (
            None if None in (self.size_bytes, other.size_bytes) else (self.size_bytes or 0) + (other.size_bytes or 0)
        )
        return type(self)(self.tiles + other.tiles, self.works + other.works, self.seconds + other.seconds, sizes)


def total(estimates: Iterable[Estimate]) -> Estimate:
    return sum(estimates, start=Estimate())


def nearest(known: Mapping[int, float], zoom: int) -> float | None:
    """The value of the nearest zoom, of two that are as near that of the smaller; None if none is known."""
    return known[min(known, key=lambda each: (abs(each - zoom), each))] if known else None


def describe(estimate: Estimate, workers: int = 1) -> str:
    """In words: `5,461 tiles in 100 pieces of work, 38 s, 41 MB`."""
    size = "size not known" if estimate.size_bytes is None else f"about {in_bytes(estimate.size_bytes)}"
    tiles = "1 tile" if estimate.tiles == 1 else f"{estimate.tiles:,} tiles"
    works = "1 piece" if estimate.works == 1 else f"{estimate.works:,} pieces"
    return f"{tiles} in {works} of work, about {in_seconds(estimate.seconds / max(1, workers))}, {size}"


def in_seconds(seconds: float) -> str:
    """`20 ms`, `38 s`, `12 min`, `3.4 h`, `2.1 days`."""
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.{0 if size < 3600 and seconds >= 10 else 1}f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def in_bytes(number: float) -> str:
    """`412 bytes`, `41 MB`, `1.2 GB`."""
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if number >= size:
            return f"{number / size:.{0 if number >= 10 * size else 1}f} {unit}"
    return f"{number:.0f} bytes"
