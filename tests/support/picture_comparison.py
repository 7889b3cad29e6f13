"""Pictures compared pixel by pixel: before and after speeds change, and neighbouring tiles with one large picture."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from resources.tiles import grid_arrays
from resources.tiles.data.speeds import SegmentSpeeds
from resources.tiles.grid_arrays import ColourSamples, Floats
from resources.tiles.render import painter, scene
from resources.tiles.render.painter import AnyScene
from resources.tiles.render.scene import GeometryIndex, Scene
from resources.tiles.styles import parse_style
from resources.tiles.tile_address import Tile
from resources.tiles.window import LATTICE_PIXELS, Window
from tests.support import geojson

Place: TypeAlias = tuple[int, int]

FAR = 160


def with_speed(before: SegmentSpeeds, places: Sequence[int], share: float) -> SegmentSpeeds:
    """Some segments at a share of the free flow of 50 km/h."""
    speed, free = before.speed_kmh.copy(), before.free_flow_kmh.copy()
    speed[places], free[places] = 50 * share, 50
    return SegmentSpeeds(speed, free)


def scenes_of(index: GeometryIndex, style: Mapping[str, Any], *each: SegmentSpeeds) -> list[Scene]:
    """The same lines with several speeds."""
    parsed = parse_style("lines", style)
    return [scene.compose_scene("lines", index, known, parsed) for known in each]


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
    drawn = [np.asarray(painter.draw_window(each, window, zoom, scale)) for each in scenes]
    rows, columns = np.nonzero(drawn[0] != drawn[1])
    return set(zip(((columns + west) // size).tolist(), ((rows + north) // size).tolist(), strict=True))


def neighbours(scene: AnyScene, zoom: int, corner: Place, shape: Place, scale: int) -> ColourSamples:
    """Tiles beside each other, in rows and columns, over ±180° too."""

    def pixels(column: int, row: int) -> ColourSamples:
        tile = Tile("a", zoom, (corner[0] + column) % 2**zoom, corner[1] + row, scale)
        return geojson.pixels(painter.paint_tile(scene, tile))

    rows, columns = shape
    return np.vstack([np.hstack([pixels(column, row) for column in range(columns)]) for row in range(rows)])


def one_picture(scene: AnyScene, zoom: int, corner: Place, shape: Place, scale: int) -> ColourSamples:
    """The same place, painted at once."""
    (left, top), side = corner, LATTICE_PIXELS * scale
    window = Window(zoom + scale - 1, left * side, top * side, shape[1] * side, shape[0] * side)
    image = painter.draw_window(scene, window, zoom, scale)
    assert image is not None
    assert image.size == (window.width, window.height)
    return geojson.pixels(painter.encode_samples(np.asarray(image), scene.style.palette, "png"))


def place_of(longitude: float, latitude: float, zoom: int) -> Place:
    """Column and row of the tile to the north-west of the tile with this place."""
    [u, v] = grid_arrays.project_positions(np.array([[longitude, latitude]]))[0].tolist()
    return int(u * 2**zoom) - 1, int(v * 2**zoom) - 1
