"""Parts of a layer whose tiles are stale, each since a version of its own. PURE."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from . import grid
from .errors import LayerError

Address: TypeAlias = tuple[int, int, int]

MOST = 50
"""So many parts are told apart. With one more, all of the layer is stale as of the oldest."""

PAINTING_SECONDS = 600
"""What was painted before a part expired is stored within this time."""


@dataclass(frozen=True, slots=True)
class Part:
    """What of a layer is meant: bounds, and zooms from the smallest to the largest."""

    bounds: grid.Bounds = grid.WORLD
    min_zoom: int = 0
    max_zoom: int = grid.MAX_ZOOM

    @classmethod
    def of(cls, bounds: object = None, min_zoom: int | None = None, max_zoom: int | None = None) -> Self | None:
        """The part that people name; None when they name nothing, and mean all. Raises LayerError."""
        if bounds is None and min_zoom is None and max_zoom is None:
            return None
        smallest = 0 if min_zoom is None else min_zoom
        largest = grid.MAX_ZOOM if max_zoom is None else max_zoom
        if not 0 <= smallest <= largest <= grid.MAX_ZOOM:
            raise LayerError(f"Zooms go from 0 to {grid.MAX_ZOOM}, the smallest first.")
        return cls(grid.WORLD if bounds is None else grid.Bounds.parse(bounds), smallest, largest)


@dataclass(frozen=True, slots=True)
class Expiration:
    """A part of which tiles of a version below this one are stale."""

    version: int
    part: Part
    boxes: tuple[grid.Box, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes", tuple(self.part.bounds.boxes()))

    @classmethod
    def parse(cls, kept: Mapping[str, Any]) -> Self:
        """From what a layer's row keeps."""
        part = Part(grid.Bounds.parse(kept["bounds"]), kept["min_zoom"], kept["max_zoom"])
        return cls(kept["version"], part)

    def as_dict(self) -> dict[str, Any]:
        part = self.part
        return {
            "version": self.version,
            "bounds": part.bounds.as_list(),
            "min_zoom": part.min_zoom,
            "max_zoom": part.max_zoom,
        }

    def touches(self, tile: Address, padding: float, side: int = 1) -> bool:
        """Whether a tile shows something of the part, or of what is drawn up to `padding` tiles around it.

        Of blocks of `side` tiles (x, y) are the block's: it covers one tile of a smaller zoom.
        """
        z, x, y = tile
        if not self.part.min_zoom <= z <= self.part.max_zoom:
            return False
        return grid.boxes_touch(self.boxes, z - side.bit_length() + 1, x, y, padding / side)


def lowest_fresh(
    data_version: int, expirations: Iterable[Expiration], tile: Address, padding: float, side: int = 1
) -> int:
    """The lowest version of a tile (z, x, y) that is not stale; of a block, at which no tile of it is stale."""
    newer = (each for each in expirations if each.version > data_version)
    return max((each.version for each in newer if each.touches(tile, padding, side)), default=data_version)


def with_one_more(
    kept: Sequence[Mapping[str, Any]], data_version: int, new: Expiration, servable_seconds: float
) -> tuple[list[Mapping[str, Any]], int]:
    """What the row keeps from now on, and the data version.

    Leaves out parts that expired so long ago that nothing from before is served any more, `servable_seconds`
    being how long a tile is; and those that the new one covers. Versions are microseconds.
    """
    forgotten = new.version - int((servable_seconds + PAINTING_SECONDS) * 1_000_000)
    covered = new.as_dict()
    rules = [
        rule
        for rule in kept
        if rule["version"] > max(data_version, forgotten) and {**rule, "version": 0} != {**covered, "version": 0}
    ]
    rules.append(covered)
    rules.sort(key=lambda rule: int(rule["version"]))
    too_many = rules[: max(0, len(rules) - MOST)]
    return rules[len(too_many) :], max([data_version, *(rule["version"] for rule in too_many)])
