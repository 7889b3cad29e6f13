"""Lines as they are painted before and after their speeds change, compared pixel by pixel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from resources.tiles.arrays import Floats
from resources.tiles.drawing import painting, scene
from resources.tiles.drawing.scene import Index, Scene
from resources.tiles.reading.speeds import Speeds
from resources.tiles.styling.style import parse_style
from resources.tiles.window import LATTICE_PIXELS, Window

FAR = 160


def with_speed(before: Speeds, places: Sequence[int], share: float) -> Speeds:
    """Some segments at a share of the free flow of 50 km/h."""
    speed, free = before.speed_kmh.copy(), before.free_flow_kmh.copy()
    speed[places], free[places] = 50 * share, 50
    return Speeds(speed, free)


def scenes_of(index: Index, style: Mapping[str, Any], *each: Speeds) -> list[Scene]:
    """The same lines with several speeds."""
    parsed = parse_style("lines", style)
    return [scene.compose("lines", index, known, parsed) for known in each]


def different(scenes: list[Scene], zoom: int) -> set[tuple[int, int]]:
    """The tiles of a zoom whose pixels differ at either scale between two scenes of one geometry."""
    geometry = scenes[0].index.geometry
    groups = np.flatnonzero((scenes[0].classes != scenes[1].classes)[geometry.features])
    if not len(groups):
        return set()
    lows, highs = scene.group_boxes(geometry)
    low, high = lows[groups].min(axis=0), highs[groups].max(axis=0)
    found = (_differing(scenes, zoom, scale, low, high) for scale in (1, 2))
    return {(column % 2**zoom, row) for each in found for column, row in each if 0 <= row < 2**zoom}


def _differing(scenes: list[Scene], zoom: int, scale: int, low: Floats, high: Floats) -> set[tuple[int, int]]:
    """Columns and rows of the tiles that have differing pixels, as far round a box as strokes reach and more."""
    level, size = zoom + scale - 1, LATTICE_PIXELS * scale
    west, north = (np.floor(low * (LATTICE_PIXELS << level)).astype(int) - FAR * scale).tolist()
    east, south = (np.ceil(high * (LATTICE_PIXELS << level)).astype(int) + FAR * scale).tolist()
    window = Window(level, west, north, east - west, south - north)
    drawn = [np.asarray(painting.draw(each, window, zoom, scale)) for each in scenes]
    rows, columns = np.nonzero(drawn[0] != drawn[1])
    return set(zip(((columns + west) // size).tolist(), ((rows + north) // size).tolist(), strict=True))
