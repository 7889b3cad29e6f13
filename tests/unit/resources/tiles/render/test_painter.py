"""Painted tiles: lines, areas and points, alone, in metatiles and beside their neighbours."""

import dataclasses
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from resources.tiles import grid_arrays, styles
from resources.tiles.render import canvas, painter
from resources.tiles.render import scene as render_scene
from resources.tiles.render.painter import AnyScene, PointScene
from resources.tiles.render.scene import GeometryIndex, LatticeLines, Scene
from resources.tiles.tile_address import Tile
from resources.tiles.window import CANVAS_LEFT, CANVAS_MARGIN, Window
from tests.support import geojson
from tests.support.picture_comparison import neighbours, one_picture, place_of


@pytest.mark.parametrize("width", [1, 3, 9, 33, 127])
def test_many_discs_pressed_at_once_are_those_pressed_one_by_one(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    window = Window(3, 512, 1024, 512, 256)
    random = np.random.default_rng(width)
    reach = width // 2 + 2
    low, high = (CANVAS_LEFT - reach, CANVAS_MARGIN - reach), (CANVAS_LEFT + 512 + reach, CANVAS_MARGIN + 256 + reach)
    centres = random.integers(low, high, (300, 2))
    painted = []
    for dense in (0.0, 1e9):
        monkeypatch.setattr(canvas, "DENSE_DISC_SHARE", dense)
        drawn = canvas.Canvas(window, width)
        drawn.press_discs(centres, 3)
        drawn.press_discs(centres[:50], 2)
        painted.append(drawn.samples())
    assert painted[0].any()
    assert (painted[0] == painted[1]).all()


RED = {"colours": {"grey": "#ff0000"}, "widths": {"0": 4}}


def colour_at(scene: Scene, tile: Tile, x: int, y: int) -> tuple[int, ...]:
    return tuple(geojson.pixels(painter.paint_tile(scene, tile))[y, x].tolist())


def test_a_tile_with_nothing_on_it_is_the_shared_empty_one() -> None:
    scene = geojson.scene_of("lines", geojson.collection(geojson.line(1, [[0.1, 51], [0.2, 51]])))
    for scale, image_format in ((1, "png"), (2, "png"), (1, "webp")):
        painted = painter.paint_tile(scene, Tile("a", 5, 3, 3, scale, image_format))
        assert painted is painter.encode_empty_tile(scale, image_format)
        image = geojson.pixels(painted)
        assert image.shape == (256 * scale, 256 * scale, 4)
        assert not image.any()
    assert len(painter.encode_empty_tile(1, "png")) < 200


def test_lines_are_painted_over_a_transparent_background_with_soft_edges() -> None:
    scene = geojson.scene_of("lines", geojson.collection(geojson.line(1, [[-120, 10], [130, -60]])), RED)
    image = geojson.pixels(painter.paint_tile(scene, Tile("a", 0, 0, 0)))
    alphas = set(image[..., 3].ravel().tolist())
    assert {0, 255} < alphas
    assert (image[image[..., 3] > 0][:, :3] == [255, 0, 0]).all()


def test_the_worst_class_is_on_top() -> None:
    lines = [
        geojson.line(number, [[-80, latitude], [80, -latitude]], speed=speed, free_flow=100)
        for number, (latitude, speed) in enumerate([(40, 5), (-40, 99), (0, 60)])
    ]
    for order in (lines, lines[::-1]):
        scene = geojson.scene_of("lines", geojson.collection(*order), {"widths": {"0": 6}})
        assert colour_at(scene, Tile("a", 0, 0, 0), 128, 128) == scene.style.palette[styles.DARK_RED - 1]


def test_colours_follow_the_speed_and_grey_is_no_data() -> None:
    lines = [
        geojson.line(
            number, [[-80, 60 - 30 * number], [80, 60 - 30 * number]], **({"speed": s, "free_flow": 100} if s else {})
        )
        for number, s in enumerate([90, 60, 30, 10, None])
    ]
    scene = geojson.scene_of("lines", geojson.collection(*lines), {"widths": {"0": 4}})
    image = geojson.pixels(painter.paint_tile(scene, Tile("a", 0, 0, 0)))
    column = [tuple(pixel) for pixel in image[:, 128].tolist() if pixel[3] == 255]
    order = (styles.GREEN, styles.YELLOW, styles.RED, styles.DARK_RED, styles.GREY)
    assert list(dict.fromkeys(column)) == [scene.style.palette[each - 1] for each in order]


def test_holes_of_areas_show_what_lies_below() -> None:
    lesotho = geojson.area("lesotho", geojson.square(-20, -20, 20, 20))
    around = geojson.area("around", geojson.square(-90, -60, 90, 60), geojson.square(-40, -40, 40, 40))
    fill = {"colours": {"fill": "#00ff00", "outline": "#00000000"}}
    for order in ((lesotho, around), (around, lesotho)):
        scene = geojson.scene_of("areas", geojson.collection(*order), fill)
        assert colour_at(scene, Tile("a", 0, 0, 0), 128, 128) == (0, 255, 0, 255)
        assert colour_at(scene, Tile("a", 0, 0, 0), 128 + 21, 128)[3] == 0
        assert colour_at(scene, Tile("a", 0, 0, 0), 128 + 50, 128) == (0, 255, 0, 255)


def test_translucent_colours_keep_their_alpha() -> None:
    fill = {"colours": {"fill": "#11223380", "outline": "#00000000"}}
    scene = geojson.scene_of("areas", geojson.collection(geojson.area(1, geojson.square(-90, -60, 90, 60))), fill)
    for image_format in ("png", "webp"):
        assert colour_at(scene, Tile("a", 0, 0, 0, 1, image_format), 128, 128) == (0x11, 0x22, 0x33, 0x80)


@pytest.mark.parametrize("zoom", [1, 4, 9])
def test_a_line_across_the_antimeridian_joins_on_both_sides(zoom: int) -> None:
    scene = geojson.scene_of(
        "lines", geojson.collection(geojson.line(1, [[178, 0.1], [-178, 0.1]])), {"widths": {"0": 6}}
    )
    row = 2 ** (zoom - 1) - 1
    west = geojson.pixels(painter.paint_tile(scene, Tile("a", zoom, 2**zoom - 1, row)))
    east = geojson.pixels(painter.paint_tile(scene, Tile("a", zoom, 0, row)))
    assert west[:, -1, 3].any()
    assert np.array_equal(west[:, -1], east[:, 0])
    if zoom > 1:
        assert not geojson.pixels(painter.paint_tile(scene, Tile("a", zoom, 2 ** (zoom - 1), row))).any()


ACROSS = geojson.area("fiji", [[170, -20], [-170, -20], [-170, 20], [170, 20], [170, -20]])
HALVES = [geojson.area(west, geojson.square(west, -20, west + 10, 20)) for west in (170, -180)]


@pytest.mark.parametrize("areas", [[ACROSS], HALVES], ids=["across", "cut"])
def test_areas_on_both_sides_of_the_antimeridian_have_no_shore_there(areas: list[dict[str, Any]]) -> None:
    scene = geojson.scene_of("areas", geojson.collection(*areas), {"widths": {"0": 4}})
    fill = scene.style.palette[styles.DOT_FILL - 1]
    for row in (200, 255):
        assert colour_at(scene, Tile("a", 3, 7, 3), 255, row) == fill
        assert colour_at(scene, Tile("a", 3, 0, 3), 0, row) == fill
    assert colour_at(scene, Tile("a", 1, 0, 0), 128, 250)[3] == 0


def test_an_area_round_a_pole_is_filled_to_the_maps_edge() -> None:
    antarctica = geojson.area("s", [[-170, -70], [-90, -75], [0, -70], [90, -72], [170, -70], [-170, -70]])
    scene = geojson.scene_of("areas", geojson.collection(antarctica), {"widths": {"0": 4}})
    fill = scene.style.palette[styles.DOT_FILL - 1]
    image = geojson.pixels(painter.paint_tile(scene, Tile("a", 0, 0, 0)))
    assert (image[-1] == fill).all()
    assert not image[128].any()


def test_lines_beyond_the_poles_reach_are_not_drawn_along_the_maps_edge() -> None:
    scene = geojson.scene_of("lines", geojson.collection(geojson.line(1, [[-170, 89], [170, 89]])), RED)
    assert painter.paint_tile(scene, Tile("a", 0, 0, 0)) is painter.encode_empty_tile(1, "png")


def test_segments_smaller_than_a_pixel_do_not_vanish() -> None:
    positions = np.column_stack((np.linspace(-60, 60, 3000), np.zeros(3000))).tolist()
    pieces = [geojson.line(number, positions[number : number + 2]) for number in range(2999)]
    scene = geojson.scene_of("lines", geojson.collection(*pieces), RED)
    image = geojson.pixels(painter.paint_tile(scene, Tile("a", 0, 0, 0)))
    assert (image[127:129, 100:150, 3] > 0).all(axis=1).any()


def test_every_blend_of_six_colours_fits_a_palette() -> None:
    random = np.random.default_rng(2)
    samples = random.integers(0, 7, (512, 512), dtype=np.uint8)
    palette = tuple((10 * i, 20 * i, 30 * i, 255) for i in range(6))
    image = Image.open(io.BytesIO(painter.encode_samples(samples, palette, "png")))
    assert image.mode == "P"
    blended = np.asarray(image.convert("RGBA"), np.float64)
    wide = np.array([(0, 0, 0, 0), *palette], np.float64)[samples]
    blocks = wide.reshape(256, 2, 256, 2, 4)
    alpha = blocks[..., 3].sum(axis=(1, 3))
    mean = (blocks[..., :3] * blocks[..., 3:]).sum(axis=(1, 3)) / np.maximum(alpha, 1)[..., None]
    assert np.abs(blended[..., 3] - alpha / 4).max() <= 0.5
    assert np.abs(blended[..., :3] - mean).max() <= 0.5


def test_a_picture_round_the_globe_repeats_it_and_shows_nothing_beyond_the_poles() -> None:
    across = geojson.line(1, [[150, 0.1], [-150, 0.1]])
    scene = geojson.scene_of("lines", geojson.collection(across, geojson.line(2, [[-30, 80], [-30, -80]])), RED)
    image = painter.draw_window(scene, Window(0, -900, -300, 3 * 512 + 100, 1200), 0, 1)
    assert image is not None
    samples = np.asarray(image)
    assert samples.shape == (1200, 3 * 512 + 100)
    assert not samples[:300].any()
    assert not samples[300 + 512 :].any()
    whole = painter.draw_window(scene, Window(0, 0, -300, 512, 1200), 0, 1)
    assert whole is not None
    assert np.array_equal(samples, np.tile(np.asarray(whole), 5)[:, 1024 - 900 :][:, : samples.shape[1]])


@pytest.fixture(scope="module")
def wandering() -> Scene:
    return geojson.scene_of("lines", geojson.many_lines(20_000))


@pytest.mark.parametrize("zoom", [4, 8, 10])
def test_thinned_lines_cover_what_their_edges_do(wandering: Scene, zoom: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = dataclasses.replace(wandering, index=fresh(wandering))
    [u, v] = grid_arrays.project_positions(np.array([[0.02, 51.5]]))[0].tolist()
    tile = Tile("a", zoom, int(u * 2**zoom), int(v * 2**zoom))
    thinned = geojson.pixels(painter.paint_tile(scene, tile))[..., 3].astype(int)
    monkeypatch.setattr(canvas, "DISC_JOINED_PIXELS", 0)
    monkeypatch.setattr(render_scene, "simplify_lines", exactly)
    whole = geojson.pixels(painter.paint_tile(dataclasses.replace(scene, index=fresh(scene)), tile))[..., 3].astype(int)
    assert whole.any()
    assert not (thinned[whole == 255] == 0).any()
    assert not (whole[thinned == 255] == 0).any()
    assert np.abs(thinned - whole).mean() < 0.12 * whole.mean()


def exactly(coordinates: NDArray[np.float64], offsets: NDArray[np.int64], level: int) -> render_scene.LatticeLines:
    return render_scene.LatticeLines(np.floor(coordinates * float(512 << level) + 0.5), offsets)


def fresh(scene: Scene) -> GeometryIndex:
    """The scene's index without the levels that it has thinned already."""
    return GeometryIndex.build(scene.index.geometry)


def long_and_short_lines() -> bytes:
    random = np.random.default_rng(5)
    streets = random.normal([0.02, 51.5], 0.02, (300, 1, 2)) + np.cumsum(random.normal(0, 0.002, (300, 6, 2)), axis=1)
    motorways = np.array([[[-40.0, 20.0], [0.02, 51.5], [60.0, 70.0]], [[-170.0, 51.4], [0.0, 51.52], [170.0, 51.3]]])
    lines: Sequence[list[list[float]]] = [*streets.tolist(), *motorways.tolist()]
    speeds = random.uniform(0, 60, len(lines)).tolist()
    return geojson.collection(
        *(geojson.line(i, p, speed=s, free_flow=50) for i, (p, s) in enumerate(zip(lines, speeds, strict=True)))
    )


def areas_with_holes() -> bytes:
    random = np.random.default_rng(6)
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)

    def ring(x: float, y: float, size: float) -> list[list[float]]:
        radii = size * random.uniform(0.6, 1.0, len(angles))
        points = np.column_stack((x + radii * np.cos(angles), y + radii * np.sin(angles)))
        return np.concatenate((points, points[:1])).tolist()  # type: ignore[no-any-return]

    centres = random.normal([0.02, 51.5], 0.05, (12, 2)).tolist()
    islands = [geojson.area(i, ring(x, y, 0.04), ring(x, y, 0.01)) for i, (x, y) in enumerate(centres)]
    continent = geojson.area("continent", [[-90, 10], [0.02, 51.49], [80, 30], [10, 80], [-90, 10]])
    return geojson.collection(continent, *islands)


@pytest.fixture(scope="module")
def seam_scenes() -> dict[str, Scene]:
    return {
        "lines": geojson.scene_of("lines", long_and_short_lines(), {"widths": {"8": 1.5, "22": 12}}),
        "areas": geojson.scene_of("areas", areas_with_holes(), {"widths": {"8": 1, "22": 6}}),
    }


@pytest.mark.parametrize(("zoom", "scale"), [(3, 2), (8, 1), (11, 2), (13, 1), (16, 2), (20, 1), (22, 2)])
@pytest.mark.parametrize("kind", ["lines", "areas"])
def test_neighbours_are_one_big_picture(seam_scenes: dict[str, Scene], kind: str, zoom: int, scale: int) -> None:
    check_joins(seam_scenes[kind], zoom, place_of(0.02, 51.5, zoom), (3, 3), scale)


def check_joins(scene: AnyScene, zoom: int, corner: tuple[int, int], shape: tuple[int, int], scale: int) -> None:
    tiles, picture = (show(scene, zoom, corner, shape, scale) for show in (neighbours, one_picture))
    assert picture[..., 3].any()
    assert np.array_equal(tiles, picture)


STYLES: dict[str, dict[str, Any]] = {
    "clusters": {"mode": "clusters", "radius": 60},
    "heat": {"mode": "heat", "radius": 37},
    "dots": {"mode": "dots", "radius": 6.5},
    "dots by weight": {"mode": "dots", "radius": [2, 11]},
}


def points_everywhere() -> bytes:
    """Heaps around London, on the antimeridian and at a pole; a few anywhere."""
    random = np.random.default_rng(4)
    heaps = [random.normal(centre, spread, (400, 2)) for centre in ([0.02, 51.5], [180, -17]) for spread in (0.01, 3)]
    pole = np.column_stack((random.uniform(-180, 180, 50), random.uniform(84, 90, 50)))
    positions = np.concatenate([*heaps, pole, random.uniform([-180, -85], [180, 85], (300, 2))])
    positions[:, 0] = (positions[:, 0] + 180) % 360 - 180
    weights = random.exponential(2.0, len(positions)).tolist()
    return geojson.collection(
        *(geojson.point(None, p, weight=w) for p, w in zip(positions.tolist(), weights, strict=True))
    )


@pytest.fixture(scope="module")
def scenes() -> dict[str, PointScene]:
    data = points_everywhere()
    return {name: geojson.point_scene_of(data, each) for name, each in STYLES.items()}


@pytest.mark.parametrize(("zoom", "scale"), [(2, 1), (5, 2), (8, 1), (12, 2), (15, 1), (22, 2)])
@pytest.mark.parametrize("name", STYLES)
def test_neighbours_of_points_are_one_picture(scenes: dict[str, PointScene], name: str, zoom: int, scale: int) -> None:
    longitude, latitude = 0.02, 51.5
    if zoom == 22:  # there, points are far apart
        index = int(scenes[name].points.weights.argmax())
        u, v = scenes[name].points.x[index] / 2**32, scenes[name].points.y[index] / 2**32
        [longitude, latitude] = grid_arrays.unproject_coordinates(np.array([[u, v]]))[0].tolist()
    left, top = place_of(longitude, latitude, zoom)
    check_joins(scenes[name], zoom, (left, max(top, 0)), (3, 3), scale)


@pytest.mark.parametrize(("zoom", "scale", "shape"), [(0, 1, (1, 3)), (1, 2, (2, 2)), (4, 1, (2, 2)), (7, 2, (2, 2))])
@pytest.mark.parametrize("name", STYLES)
def test_points_beside_the_antimeridian_are_one_picture(
    scenes: dict[str, PointScene], name: str, zoom: int, scale: int, shape: tuple[int, int]
) -> None:
    check_joins(scenes[name], zoom, (2**zoom - 1, max(place_of(180, -17, zoom)[1], 0)), shape, scale)


@pytest.mark.parametrize("name", STYLES)
def test_a_tile_of_a_block_is_to_the_byte_the_tile_alone(scenes: dict[str, PointScene], name: str) -> None:
    left, top = place_of(0.02, 51.5, 7)
    tiles = [Tile("a", 7, left + i, top + j, 2) for j in range(2) for i in range(2)]
    painted = painter.paint_tiles(scenes[name], tiles)
    assert painted == {tile: painter.paint_tile(scenes[name], tile) for tile in tiles}


@pytest.mark.parametrize("name", STYLES)
def test_a_picture_of_any_place_and_size_is_a_part_of_the_large_one(scenes: dict[str, PointScene], name: str) -> None:
    assert painter.paint_tile(scenes[name], Tile("a", 18, 5, 150_000)) is painter.encode_empty_tile(1, "png")
    window = Window(6, 30 * 512 + 131, 20 * 512 + 57, 1001, 533)
    whole = Window(6, 30 * 512, 20 * 512, 4 * 512, 3 * 512)
    part, image = (painter.draw_window(scenes[name], each, 6, 1) for each in (window, whole))
    assert part is not None
    assert image is not None
    assert np.array_equal(np.asarray(part), np.asarray(image)[57 : 57 + 533, 131 : 131 + 1001])


def test_a_long_line_is_drawn_in_calls_of_a_few_hundred_edges() -> None:
    """The thread that renews the claim's lease gets its turn in between."""
    steps = np.column_stack((CANVAS_LEFT + np.arange(5000) % 2 * 9, CANVAS_MARGIN + np.arange(5000)))
    lines = LatticeLines(steps.astype(np.float64), np.array([0, 5000]))
    laid = canvas.lay_strokes(Window(6, 0, 0, 512, 5000), lines, 1, np.zeros(1, np.bool_))
    assert max(map(len, laid.polylines)) == canvas.MAX_EDGES_PER_CALL + 1
    assert sum(map(len, laid.polylines)) - len(laid.polylines) == 4999
