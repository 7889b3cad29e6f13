"""Paints windows of a scene, and tiles as image files: one or many from one canvas. Stores nothing.

Each class of lines is drawn in one colour over the better ones, so that within a class the order does not
matter and neighbours agree.

Pictures are antialiased without loss of colour or alpha: a supersampled square of 2×2 index colours is one of
few combinations (126 of five colours and nothing), so that all blended colours fit a palette. Nothing is
quantised, and equal pixels of neighbouring tiles are equal in their files.
"""

import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations_with_replacement
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ...image_formats import TILE_FORMATS
from .. import styles
from ..data import arrays, geojson, speeds
from ..data.arrays import GLOBE_UNITS, Points
from ..grid_arrays import ColourSamples, Floats, Indexes
from ..styles import RGBA, PointStyle, parse_style
from ..tile_address import Tile
from ..window import SUPERSAMPLING, Window
from . import canvas as render_canvas
from . import clusters, heat
from .canvas import Canvas
from .clusters import Clusters
from .scene import GeometryIndex, LastUsedCache, LatticeLines, Scene, compose_scene, gather_rows

SAMPLES_PER_PIXEL = SUPERSAMPLING**2
MAX_COLOURS = 6
"""Six colours and nothing make 210 combinations of four; seven would not fit a palette."""

NOISE_SHARE = 0.65
"""If more pixels than this differ from the one before, run lengths compress as well, four times as fast."""


def encode_samples(samples: NDArray[np.uint8], palette: tuple[RGBA, ...], image_format: str) -> bytes:
    """Encodes a supersampled canvas as an image file of half its width. 0 is nothing, i is palette[i - 1]."""
    return encode_image(blend_samples(samples, palette), image_format)


def blend_samples(samples: NDArray[np.uint8], palette: tuple[RGBA, ...]) -> Image.Image:
    """Returns a supersampled canvas as a picture in index colours, of half its width.

    A palette of more than MAX_COLOURS is a ramp: the four samples of a pixel are then all the same.
    """
    codes: NDArray[np.uint8] | NDArray[np.uint16]
    if len(palette) > MAX_COLOURS:
        codes, blends = samples[::2, ::2], np.array([(0, 0, 0, 0), *palette], np.uint8)
    else:
        codes, blends = _blend_codes(samples), _blend_colours(palette)
    used = np.flatnonzero(np.bincount(codes.reshape(-1), minlength=len(blends)))
    places = np.zeros(len(blends), np.uint8)
    places[used] = np.arange(len(used), dtype=np.uint8)
    image = Image.fromarray(places[codes], mode="P")
    image.putpalette(blends[used].tobytes(), rawmode="RGBA")
    return image


def encode_image(image: Image.Image, image_format: str) -> bytes:
    """Encodes the picture as a file, without loss."""
    buffer, chosen = io.BytesIO(), TILE_FORMATS[image_format]
    options = dict(chosen.tile or {})
    if image_format == "png":
        options["compress_type"] = _zlib_strategy(image)
    else:
        image = image.convert("RGBA")
    image.save(buffer, format=chosen.pillow_name, **options)
    return buffer.getvalue()


def _zlib_strategy(image: Image.Image) -> int:
    """Chooses zlib's strategy: runs alone for pictures with hardly any repetition."""
    pixels = np.asarray(image)
    noise = np.count_nonzero(pixels[:, 1:] != pixels[:, :-1]) if image.mode == "P" else 0
    return zlib.Z_RLE if noise > NOISE_SHARE * pixels.size else zlib.Z_DEFAULT_STRATEGY


def _blend_codes(samples: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Returns one number per square of 2×2, the same for the same colours in any order."""
    weights = np.array([0, *(5**i for i in range(MAX_COLOURS))], np.uint16)[samples]
    rows = weights[0::2] + weights[1::2]
    codes: NDArray[np.uint16] = rows[:, 0::2] + rows[:, 1::2]
    return codes


@cache
def _blend_colours(palette: tuple[RGBA, ...]) -> NDArray[np.uint8]:
    """Returns the RGBA colour of every code: the mean of its samples, each weighted by its alpha."""
    if len(palette) > MAX_COLOURS:
        raise ValueError(f"At most {MAX_COLOURS} colours.")
    colours = np.array([(0, 0, 0, 0), *palette], np.float64)
    blends = np.zeros((5**MAX_COLOURS, 4), np.uint8)
    for combination in combinations_with_replacement(range(len(colours)), SAMPLES_PER_PIXEL):
        chosen = colours[list(combination)]
        alpha = chosen[:, 3].sum()
        if alpha:
            code = sum(5 ** (colour - 1) for colour in combination if colour)
            blends[code, :3] = np.rint((chosen[:, :3] * chosen[:, 3:]).sum(axis=0) / alpha)
            blends[code, 3] = np.rint(alpha / SAMPLES_PER_PIXEL)
    return blends


MAX_ZOOMS_KEPT = 8


@dataclass(frozen=True, slots=True, eq=False)
class PointScene:
    """Everything that painting a tile of points needs."""

    points: Points
    style: PointStyle
    whole_weights: NDArray[np.int64]
    _clusters: LastUsedCache[Clusters] = field(default_factory=LastUsedCache)
    _peaks: LastUsedCache[int] = field(default_factory=LastUsedCache)

    @classmethod
    def of(cls, points: Points, style: PointStyle) -> Self:
        return cls(points, style, heat.scale_weights(points.weights))

    def positions(self) -> Floats:
        """Returns the points as rows of unit mercator."""
        return np.column_stack((self.points.x, self.points.y)) / float(GLOBE_UNITS)

    def draw(self, window: Window, zoom: int, scale: int) -> Image.Image | None:
        """Draws the index colours of a window; None when no point is near."""
        match self.style.mode:
            case "clusters":
                return clusters.draw_clusters(self.clusters_of(zoom), self.style, window, scale)
            case "heat":
                return heat.draw_heat(
                    self.points, self.whole_weights, self.peak_of(zoom), self.style, window=window, scale=scale
                )
            case "dots":
                return heat.draw_dots(self.points, self.style, window, scale)

    def clusters_of(self, zoom: int) -> Clusters:
        make = partial(clusters.cluster_points, self.points, zoom, self.style.radius)
        return self._clusters.get(zoom, make, most=MAX_ZOOMS_KEPT)

    def peak_of(self, zoom: int) -> int:
        make = partial(heat.find_peak, self.points, self.whole_weights, zoom, self.style.radius)
        return self._peaks.get(zoom, make, most=MAX_ZOOMS_KEPT)


AnyScene: TypeAlias = Scene | PointScene

SceneGround: TypeAlias = GeometryIndex | arrays.Points
"""The part that scenes of all speeds and styles of one geometry share."""


def read_ground(kind: geojson.LayerKind, compiled_geometry: bytes) -> SceneGround:
    if kind == "points":
        return arrays.read_points(compiled_geometry)
    return GeometryIndex.build(arrays.read_geometry(compiled_geometry))


def build_scene(
    kind: geojson.LayerKind, ground: SceneGround, compiled_speeds: bytes | None, style: Mapping[str, Any]
) -> AnyScene:
    """Builds the scene; only lines have speeds. Raises LayerError for a style that does not fit the kind."""
    parsed = parse_style(kind, style)
    if isinstance(ground, arrays.Points):
        assert isinstance(parsed, PointStyle)
        return PointScene.of(ground, parsed)
    assert not isinstance(parsed, PointStyle)
    known = speeds.read_speeds(compiled_speeds) if compiled_speeds is not None and kind == "lines" else None
    return compose_scene(kind, ground, known, parsed)


@cache
def encode_empty_tile(scale: int, image_format: str) -> bytes:
    """Encodes the tile that shows nothing: one file for all layers and places."""
    side = 256 * SUPERSAMPLING * scale
    return encode_samples(np.zeros((side, side), np.uint8), ((0, 0, 0, 0),), image_format)


def paint_tile(scene: AnyScene, tile: Tile) -> bytes:
    """Paints the tile's image file; the shared empty one when nothing of the scene is on it."""
    return paint_tiles(scene, [tile])[tile]


def paint_tiles(scene: AnyScene, tiles: Sequence[Tile]) -> Mapping[Tile, bytes]:
    """Paints tiles of one zoom, scale and format, cut from one canvas around them all.

    Each file is equal, to the byte, to that of the tile painted alone.
    """
    if not tiles:
        return {}
    window = Window.around(tiles)
    image = draw_window(scene, window, tiles[0].z, tiles[0].scale)
    if image is None:
        return {tile: encode_empty_tile(tile.scale, tile.format) for tile in tiles}
    samples = np.asarray(image)
    painted = {}
    for tile in tiles:
        left, top, right, bottom = Window.of(tile).within(window)
        painted[tile] = _encode_tile(scene, tile, samples[top:bottom, left:right])
    return painted


def _encode_tile(scene: AnyScene, tile: Tile, samples: ColourSamples) -> bytes:
    if not samples.any():
        return encode_empty_tile(tile.scale, tile.format)
    return encode_samples(samples, scene.style.palette, tile.format)


def draw_window(scene: AnyScene, window: Window, zoom: int, scale: int) -> Image.Image | None:
    """Draws the index colours of a window in the style of `zoom`; None when no geometry is near."""
    if isinstance(scene, PointScene):
        return scene.draw(window, zoom, scale)
    width = render_canvas.odd_stroke_width(scene.style.width_at(zoom) * SUPERSAMPLING * scale)
    reach = width / 2 + 4
    canvas: Canvas | None = None
    for turn in window.turns(scene.index.west, scene.index.east, reach):
        groups = scene.index.groups_within(*window.unit_box(reach, turn))
        if len(groups):
            canvas = canvas or Canvas(window, width)
            seen = _GroupsInView(scene, canvas, turn, groups)
            seen.draw_areas() if scene.kind == "areas" else seen.draw_lines()
    return Image.fromarray(canvas.samples()) if canvas else None


class _GroupsInView:
    """The groups of a scene that a canvas may show, moved by `turn` turns of the globe."""

    def __init__(self, scene: Scene, canvas: Canvas, turn: int, groups: Indexes) -> None:
        geometry = scene.index.geometry
        self.canvas = canvas
        self.parts, of_group = gather_rows(geometry.groups, groups)
        self.classes = scene.classes[geometry.features[groups]].repeat(np.diff(of_group))
        self.opens = np.zeros(len(self.parts), dtype=np.bool_)
        self.opens[of_group[:-1]] = True
        self.rings = geometry.rings[self.parts]
        thinned = scene.index.levels.take(canvas.window.level, self.parts)
        self.lines = LatticeLines(canvas.window.on_canvas(thinned.coordinates, turn), thinned.offsets)
        self.style = scene.style

    def draw_lines(self) -> None:
        for colour in np.unique(self.classes).tolist():
            self._stroke(np.flatnonzero(self.classes == colour), colour, self.canvas.width)

    def draw_areas(self) -> None:
        for first_row, mask in render_canvas.fill_polygons(self.canvas.window, self.lines, self.opens):
            self.canvas.cover(first_row, mask, styles.DOT_FILL)
        everything = np.arange(len(self.parts))
        self._stroke(everything, styles.DOT_FILL, 1)
        if self.style.strokes_areas:
            self._stroke(everything, styles.DOT_OUTLINE, self.canvas.width)

    def _stroke(self, chosen: Indexes, colour: int, width: int) -> None:
        laid = render_canvas.lay_strokes(self.canvas.window, self.lines.take(chosen), width, self.rings[chosen])
        for points in laid.polylines:
            self.canvas.draw_line(points, colour, width)
        self.canvas.press_discs(laid.discs, colour, width)
