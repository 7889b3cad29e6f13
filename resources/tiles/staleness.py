"""Tells which tiles are older than the expiration of their part. PURE.

Expiration: a part of a layer whose tiles are stale below a version.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from . import grid
from .errors import LayerError

TileAddress: TypeAlias = tuple[int, int, int]

MAX_EXPIRATIONS = 50
"""With one part more, all of the layer is stale as of the oldest."""

MAX_PAINTING_SECONDS = 600
"""Tiles painted before a part expired are stored within this time."""


@dataclass(frozen=True, slots=True)
class LayerPart:
    """A part of a layer: bounds, and zooms from the smallest to the largest."""

    bounds: grid.Bounds = grid.WORLD
    min_zoom: int = 0
    max_zoom: int = grid.MAX_ZOOM

    @classmethod
    def of(cls, bounds: object = None, min_zoom: int | None = None, max_zoom: int | None = None) -> Self | None:
        """Returns the named part; None, for all of the layer, when nothing is named. Raises LayerError."""
        if bounds is None and min_zoom is None and max_zoom is None:
            return None
        smallest = min_zoom or 0
        largest = grid.MAX_ZOOM if max_zoom is None else max_zoom
        if not 0 <= smallest <= largest <= grid.MAX_ZOOM:
            raise LayerError(f"Zooms go from 0 to {grid.MAX_ZOOM}, the smallest first.")
        return cls(grid.WORLD if bounds is None else grid.Bounds.parse(bounds), smallest, largest)


@dataclass(frozen=True, slots=True)
class Expiration:
    """A part whose tiles are stale below this version."""

    version: int
    part: LayerPart
    boxes: tuple[grid.UnitBox, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "boxes", tuple(self.part.bounds.boxes()))

    @classmethod
    def parse(cls, kept: Mapping[str, Any]) -> Self:
        part = LayerPart(grid.Bounds.parse(kept["bounds"]), kept["min_zoom"], kept["max_zoom"])
        return cls(kept["version"], part)

    def as_dict(self) -> dict[str, Any]:
        part = self.part
        return {
            "version": self.version,
            "bounds": part.bounds.as_list(),
            "min_zoom": part.min_zoom,
            "max_zoom": part.max_zoom,
        }

    def touches(self, tile: TileAddress, padding: float, side: int = 1) -> bool:
        """Tells whether a tile shows something of the part, `padding` (in tiles) around it included.

        For metatiles of `side` tiles (x, y) are the metatile's: it covers one tile of a lower zoom.
        """
        z, x, y = tile
        if not self.part.min_zoom <= z <= self.part.max_zoom:
            return False
        return grid.boxes_touch(self.boxes, z - side.bit_length() + 1, x, y, padding / side)


def lowest_fresh_version(
    data_version: int, expirations: Iterable[Expiration], tile: TileAddress, padding: float, side: int = 1
) -> int:
    """Returns the lowest version of a tile (z, x, y) that is fresh; of a metatile, at which all its tiles are."""
    newer = (each for each in expirations if each.version > data_version)
    return max((each.version for each in newer if each.touches(tile, padding, side)), default=data_version)


def add_expiration(
    kept: Sequence[Mapping[str, Any]], data_version: int, new: Expiration, servable_seconds: float
) -> tuple[list[Mapping[str, Any]], int]:
    """Returns the row's expirations with a new one, and the data version.

    Leaves out parts that expired so long ago that no older tile is still served (tiles are served for
    `servable_seconds`), and earlier expirations of the same part. Versions are microseconds.
    """
    forgotten = new.version - int((servable_seconds + MAX_PAINTING_SECONDS) * 1_000_000)
    covered = new.as_dict()
    rules = [
        rule
        for rule in kept
        if rule["version"] > max(data_version, forgotten) and {**rule, "version": 0} != {**covered, "version": 0}
    ]
    rules.append(covered)
    rules.sort(key=lambda rule: int(rule["version"]))
    too_many = rules[: max(0, len(rules) - MAX_EXPIRATIONS)]
    return rules[len(too_many) :], max([data_version, *(rule["version"] for rule in too_many)])
