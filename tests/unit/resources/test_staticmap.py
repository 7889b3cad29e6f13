"""docs/add-your-own.md: the code that it shows is the site's own."""

import io
from typing import Any

import numpy as np
import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from project.paths import BASE_DIR
from resources import staticmap, tasks
from resources.staticmap import MAX_SIDE_PIXELS, StaticMap, StaticMapError, compose_scenes
from resources.tiles import publication
from resources.tiles.models import Layer
from resources.tiles.render import painter
from resources.tiles.render.scene import Scene
from resources.tiles.tile_address import Tile
from resources.traffic.asked import Asked
from retry import deferral
from retry.tickets import MAX_KEY_CHARACTERS
from tests.conftest import RedisServers
from tests.support import geojson
from tests.support.documentation import code_block
from tests.support.geojson import pixels
from tests.unit.resources.conftest import AREAS as CONFTEST_AREAS
from tests.unit.resources.conftest import Load, LoadUpstream

GIVEN = {"layers": "land,jams", "center": "51.5,-0.12", "zoom": "12", "size": "640x480"}


def read(**changed: str) -> StaticMap:
    return StaticMap.read({name: [value] for name, value in {**GIVEN, **changed}.items()})


def test_the_picture_lies_around_its_center_which_may_have_two_names() -> None:
    picture = read(center="0,0", zoom="1", size="100x60")
    assert (picture.x, picture.y, picture.width, picture.height) == (206, 226, 100, 60)
    assert read(center="10,180").content_key == read(center="10,-180").content_key


def test_parameters_in_another_order_name_the_same_picture() -> None:
    backwards = StaticMap.read({name: [value] for name, value in reversed(GIVEN.items())})
    assert backwards.content_key == read().content_key


@pytest.mark.parametrize(
    "changed",
    [{"center": "51.50000000001,-0.12"}, {"center": "51.5,-000.12"}, {"format": "png"}],
    ids=["within one pixel", "with more zeros", "with the format that it has by itself"],
)
def test_other_ways_to_write_it_name_the_same_picture(changed: dict[str, str]) -> None:
    assert read(**changed).content_key == read().content_key


@pytest.mark.parametrize(
    "changed",
    [{"layers": "jams,land"}, {"center": "51.6,-0.12"}, {"zoom": "13"}, {"size": "640x481"}, {"format": "webp"}],
)
def test_another_picture_has_another_key(changed: dict[str, str]) -> None:
    assert read(**changed).content_key != read().content_key


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layers", ""),
        ("layers", "jams,jams"),
        ("layers", "Jams"),
        ("layers", ",".join(f"l{number}" for number in range(9))),
        ("center", ""),
        ("center", "nan,0"),
        ("center", "1e1,0"),
        ("center", "90.1,0"),
        ("center", "0,180.5"),
        ("center", "٥١,٠"),
        ("zoom", "23"),
        ("zoom", "07"),
        ("zoom", "³"),
        ("size", "0x10"),
        ("size", f"{MAX_SIDE_PIXELS + 1}x10"),
        ("size", "640X480"),
        ("format", "gif"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(StaticMapError, match=name):
        read(**{name: value})


def test_a_large_picture_of_many_layers_is_refused() -> None:
    with pytest.raises(StaticMapError, match="times the number of layers"):
        read(layers="a,b,c", size="2048x2048")


@pytest.mark.parametrize("name", GIVEN)
def test_a_missing_parameter_is_named(name: str) -> None:
    with pytest.raises(StaticMapError, match=f"{name} is missing"):
        StaticMap.read({other: [value] for other, value in GIVEN.items() if other != name})


def test_a_repeated_parameter_is_refused() -> None:
    with pytest.raises(StaticMapError, match="zoom is given more than once"):
        StaticMap.read({**{name: [value] for name, value in GIVEN.items()}, "zoom": ["12", "13"]})


@given(st.dictionaries(st.sampled_from([*GIVEN, "format"]), st.text(max_size=30)))
def test_any_parameters_name_a_picture_or_are_refused(changed: dict[str, str]) -> None:
    try:
        picture = read(**changed)
    except StaticMapError:
        return
    assert picture.content_key.isprintable()


def test_the_longest_key_fits_into_a_ticket() -> None:
    longest = ",".join(f"{number}{'x' * 49}" for number in range(8))
    picture = read(layers=longest, zoom="22", size="2048x488", center="-85,179.99", format="webp")
    version = str(8 * 10**16)
    assert len(f"{picture.content_key}:{version}") <= MAX_KEY_CHARACTERS


ASKED = {"layers": "land,jams", "center": "51.5,0", "zoom": "10", "size": "300x200"}


@pytest.fixture
def both(load: Load, redis_servers: RedisServers) -> list[Layer]:
    return [load("land", "areas", CONFTEST_AREAS), load("jams")]


@pytest.fixture
def shown(both: list[Layer], upstream: LoadUpstream) -> None:
    upstream()


def paint(call: tuple[Any, ...]) -> None:
    task, work_key, token, arguments, _lane = call
    assert task == tasks.paint_static_map.name
    tasks.paint_static_map(work_key, token, *arguments)


def test_a_cold_picture_is_deferred_and_then_painted(client: Client, both: list[Layer], published: list[Any]) -> None:
    assert client.get("/staticmap", ASKED).status_code == 302
    paint(published[0])
    served = client.get("/staticmap", ASKED)
    assert (served.status_code, served["Content-Type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(served.content)).size == (300, 200)


def test_a_change_of_any_layer_makes_the_picture_stale(client: Client, both: list[Layer], published: list[Any]) -> None:
    client.get("/staticmap", ASKED)
    paint(published[0])
    publication.store_speeds("jams", {"north": (5, 50)})
    answer = client.get("/staticmap", ASKED)
    assert answer.status_code == 200
    assert "detail=" in answer["Cache-Status"]
    assert len(published) == 2


def test_a_layer_that_went_away_meanwhile_is_404(client: Client, both: list[Layer], published: list[Any]) -> None:
    client.get("/staticmap", ASKED)
    publication.delete_layers([both[0]])
    paint(published[0])
    assert client.get("/staticmap", ASKED).status_code == 404


@pytest.mark.parametrize(
    ("changed", "status", "word"),
    [
        ({"colour": "red"}, 400, "no parameter “colour”"),
        ({"layers": "land,unknown"}, 404, "unknown"),
        ({"zoom": "20"}, 404, "zoom 20"),
        ({"layers": "osm,jams"}, 400, "painted layers only"),
    ],
)
def test_impossible_pictures_are_refused(client: Client, shown: None, changed: Any, status: int, word: str) -> None:
    answer = client.get("/staticmap", {**ASKED, **changed})
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert word in answer.json()["detail"]


@pytest.mark.parametrize(
    "query",
    ["layers=%FF&center=%00&zoom=10&size=1x1", "zoom=1&" * 3000, "&".join(f"p{number}=1" for number in range(2000))],
    ids=["no text", "one again and again", "thousands"],
)
def test_a_query_that_makes_no_sense_is_refused(client: Client, query: str) -> None:
    assert client.get(f"/staticmap?{query}").status_code == 400


LINES = geojson.scene_of("lines", geojson.many_lines(300))
AREAS = geojson.scene_of("areas", geojson.collection(geojson.area("island", geojson.square(-1, 51, 1, 52))))


def picture_of(tile: Tile, image_format: str = "png") -> StaticMap:
    return StaticMap(("any",), tile.z, tile.x * 256, tile.y * 256, 256, 256, image_format)


def test_a_picture_of_one_tile_is_that_tile() -> None:
    tile = Tile("any", 10, 511, 340)
    assert (pixels(compose_scenes(picture_of(tile), [LINES])) == pixels(painter.paint_tile(LINES, tile))).all()


def test_a_picture_across_tiles_joins_them() -> None:
    left, right = (pixels(painter.paint_tile(LINES, Tile("any", 10, x, 340))) for x in (511, 512))
    both = compose_scenes(StaticMap(("any",), 10, 511 * 256 + 128, 340 * 256, 256, 256), [LINES])
    assert (pixels(both) == np.hstack((left[:, 128:], right[:, :128]))).all()


def test_later_scenes_cover_earlier_ones() -> None:
    tile = Tile("any", 10, 511, 340)
    above, below = (pixels(compose_scenes(picture_of(tile), order)) for order in ([AREAS, LINES], [LINES, AREAS]))
    lines, areas = pixels(painter.paint_tile(LINES, tile)), pixels(painter.paint_tile(AREAS, tile))
    opaque = lines[..., 3] == 255
    assert opaque.any()
    assert (above[opaque] == lines[opaque]).all()
    assert (below == areas).all()


def test_where_nothing_is_the_picture_is_transparent() -> None:
    scenes: list[Scene] = [LINES]
    nowhere = StaticMap(("any",), 3, 0, -300, 100, 50, "webp")
    painted = pixels(compose_scenes(nowhere, scenes))
    assert painted.shape == (50, 100, 4)
    assert not painted.any()


PAGE = "docs/add-your-own.md"
SHOWN = [
    code_block(PAGE, "python", "def content_key("),
    code_block(PAGE, "python", "def render_static_map("),
    code_block(PAGE, "python", "# resources/tasks.py"),
    code_block(PAGE, "python", "def static_map("),
    code_block(PAGE, "python", "# resources/urls.py"),
]


@pytest.mark.parametrize("block", SHOWN)
def test_code_on_the_page_stands_in_the_file(block: str) -> None:
    path, code = block.removeprefix("# ").split("\n", 1)
    assert code in (BASE_DIR / path).read_text()


def test_the_page_shows_every_part() -> None:
    shown = "\n".join(SHOWN)
    parts = ("content_key", "render_static_map", "paint_static_map", "static_map", "static_map_work")
    assert [part for part in parts if f"def {part}(" not in shown] == []


QUERY = "layers=land,jams&center=51.5,0&zoom=10&size=300x200"


def test_static_maps_are_counted_by_the_picture_and_what_only_begins_like_one_is_not() -> None:
    key = read(**ASKED).content_key
    assert staticmap.classify_address(f"/staticmap?{QUERY}") == Asked("staticmap", content_key=key)
    assert staticmap.classify_address("/staticmap?layers=%2F") == staticmap.classify_address("/staticmap")
    assert staticmap.classify_address("/staticmap") == Asked("staticmap")
    assert staticmap.classify_address("/staticmaps") is None


def test_a_popular_picture_is_prepared_from_its_key(client: Client, both: list[Layer], published: list[Any]) -> None:
    piece = staticmap.warm_static_map(read(**ASKED).content_key, 5.0)
    assert piece
    assert piece.kept_seconds == 60 + 86_400
    assert (piece.work.lane, piece.requests) == ("paint.warm", 5.0)
    deferral.find_answer(piece.wanted[0].content_key, piece.work, piece.wanted[0].version)
    paint(published.pop())
    assert client.get("/staticmap", ASKED).status_code == 200
    assert published == []


@pytest.mark.parametrize(
    "key", ["staticmap:land,gone:10:1:1:9x9:png", "staticmap:osm:3:1:1:9x9:png", "tile:a:1:0:0:png"]
)
def test_a_picture_that_no_client_would_get_is_not_prepared(shown: None, key: str) -> None:
    assert staticmap.warm_static_map(key, 5.0) is None
