"""Layers of points as commands, the admin and clients see them."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import CommandError
from django.http import HttpResponse
from django.test import Client

from resources.tiles import layer_files, styles, work
from resources.tiles.data import arrays, compiler
from resources.tiles.models import Layer
from resources.tiles.render import painter
from resources.tiles.render.painter import PointScene
from resources.tiles.tile_address import Metatile, Tile
from tests.support import geojson
from tests.support.geojson import collection, point

from ..conftest import LINES, Load
from .conftest import run
from .test_admin import ADD, change, errors_of, form, upload

POINTS = collection(point("a", [-0.1, 51.5], mag=3, depth=-4), point("b", [0.2, 51.6], mag=1), point("c", [179, 0]))
HEAT = {"mode": "heat", "weight": "mag"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "points.geojson"
    path.write_bytes(POINTS)
    return path


def weights_of(layer: Layer) -> list[float]:
    return sorted(arrays.read_points(layer_files.read_file(layer.geometry_name)).weights.tolist())


@pytest.mark.django_db
def test_load_layer_creates_a_layer_of_points(file: Path) -> None:
    said = run("load_layer", "quakes", "--points", file, "--style", json.dumps(HEAT))
    layer = Layer.objects.get()
    assert (layer.kind, layer.segments, layer.style) == ("points", 3, HEAT)
    assert weights_of(layer) == [1, 1, 3]
    assert "quakes: 3 points, 3 positions; version" in said


@pytest.mark.django_db
def test_new_points_are_weighed_as_the_layers_style_says(file: Path) -> None:
    run("load_layer", "quakes", "--points", file, "--style", json.dumps(HEAT))
    run("load_layer", "quakes", "--points", file)
    assert weights_of(Layer.objects.get()) == [1, 1, 3]
    run("load_layer", "quakes", "--points", file, "--style", "{}")
    assert weights_of(Layer.objects.get()) == [1, 1, 1]


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (b"{", [], "bad.geojson: The file is not JSON"),
        (collection(), [], "FeatureCollection is empty"),
        (LINES, [], "is a LineString; a layer of points cannot show it"),
        (POINTS.replace(b'"b"', b'"a"'), [], "Features 0 and 1 have the same id"),
        (POINTS, ["--style", '{"mode": "hot"}'], "style: “mode” is one of clusters, heat, dots"),
        (POINTS, ["--style", '{"widths": {}}'], "style: A style of points has no “widths”"),
        (POINTS, ["--style", '{"weight": "magnitude"}'], "No feature has the property “magnitude”"),
        (POINTS, ["--style", '{"weight": "depth"}'], "property depth is -4, not a weight"),
        (POINTS, ["--speeds", __file__], "Only lines have speeds"),
    ],
)
def test_load_layer_says_what_is_wrong_with_points_and_keeps_the_old_data(
    load: Load, tmp_path: Path, data: bytes, arguments: list[str], message: str
) -> None:
    before = load("quakes", "points", POINTS)
    path = tmp_path / "bad.geojson"
    path.write_bytes(data)
    with pytest.raises(CommandError) as caught:
        run("load_layer", "quakes", "--points", path, *arguments)
    assert message in str(caught.value)
    after = Layer.objects.get()
    assert (after.version, after.geometry_name, after.style) == (before.version, before.geometry_name, {})
    assert weights_of(after) == [1, 1, 1]


def test_a_layer_of_points_takes_no_speeds(load: Load, tmp_path: Path) -> None:
    load("quakes", "points", POINTS)
    path = tmp_path / "speeds.csv"
    path.write_text("segment_id,speed_kmh,free_flow_kmh\na,1,2\n")
    with pytest.raises(CommandError, match="“quakes” is a layer of points; only lines have speeds"):
        run("load_speeds", "quakes", path)


def test_points_may_take_the_place_of_lines_and_back(load: Load, file: Path, tmp_path: Path) -> None:
    load("quakes")
    run("load_layer", "quakes", "--points", file)
    assert isinstance(work.load_scene("quakes")[1], PointScene)
    lines = tmp_path / "lines.geojson"
    lines.write_bytes(LINES)
    run("load_layer", "quakes", "--lines", lines)
    assert not isinstance(work.load_scene("quakes")[1], PointScene)


def test_points_are_uploaded_and_weighed_in_the_admin(admin_client: Client) -> None:
    sent = form(kind="points", style=json.dumps(HEAT), geometry_file=upload(POINTS))
    assert admin_client.post(ADD, sent).status_code == 302
    assert weights_of(Layer.objects.get()) == [1, 1, 3]


def test_another_weight_needs_the_file_again(admin_client: Client, load: Load) -> None:
    layer = load("jams", "points", POINTS)
    sent = form(kind="points", style=json.dumps(HEAT))
    assert "Choose the GeoJSON again" in errors_of(admin_client.post(change(layer), sent))["style"][0]
    assert admin_client.post(change(layer), {**sent, "geometry_file": upload(POINTS)}).status_code == 302
    assert weights_of(Layer.objects.get()) == [1, 1, 3]


def test_another_mode_needs_no_file(admin_client: Client, load: Load) -> None:
    layer = load("jams", "points", POINTS)
    assert admin_client.post(change(layer), form(kind="points", style='{"mode": "dots"}')).status_code == 302
    assert Layer.objects.get().style == {"mode": "dots"}


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"kind": "points", "geometry_file": LINES}, "geometry_file", "is a LineString; a layer of points"),
        ({"kind": "lines", "geometry_file": POINTS}, "geometry_file", "is a Point; a layer of lines"),
        ({"kind": "lines"}, "geometry_file", "A layer of this kind needs its GeoJSON"),
        ({"kind": "points", "style": '{"radius": 1}'}, "style", "“radius” of clusters is 20 to 200 pixels"),
        ({"kind": "points", "speeds_file": b"x", "geometry_file": POINTS}, "speeds_file", "Only lines have speeds"),
        ({"kind": "points", "speeds_file": b"x"}, "speeds_file", "Only lines have speeds"),
    ],
)
def test_the_admin_says_at_the_field_what_is_wrong_with_points(
    admin_client: Client, load: Load, fields: dict[str, Any], field: str, message: str
) -> None:
    before = load("jams", "points", POINTS)
    files = {name: upload(value) for name, value in fields.items() if isinstance(value, bytes)}
    response = admin_client.post(change(before), form(**{**fields, **files}))
    assert list(errors_of(response)) == [field]
    assert message in errors_of(response)[field][0]
    assert Layer.objects.get().version == before.version


def test_the_form_explains_the_style_of_points(admin_client: Client, load: Load) -> None:
    page = admin_client.get(change(load("jams", "points", POINTS))).content.decode()
    assert "Points are clusters, heat or dots" in page
    assert "Lines, areas or points, as the kind says" in page


def test_a_worker_paints_points(load: Load) -> None:
    load("quakes", "points", POINTS, style={"mode": "dots"})
    [prepared] = work.paint_metatile(Metatile("quakes", 5, 15, 10, 1)).values()
    assert geojson.pixels(prepared.body)[..., 3].any()


def test_tilejson_describes_the_classes_of_points(client: Client, load: Load) -> None:
    load("quakes", "points", POINTS)
    described = client.get("/tiles/quakes.json").json()
    assert [entry["label"] for entry in described["classes"]] == ["1", "2–9", "10–99", "100 and more"]
    Layer.objects.get().delete()
    load("warm", "points", POINTS, style=HEAT)
    assert client.get("/tiles/warm.json").json()["legend"] == "Low, Medium, High, Highest"


def test_the_map_page_shows_heat_as_a_ramp_and_clusters_as_discs(client: Client, load: Load) -> None:
    load("warm", "points", POINTS, style=HEAT)
    load("many", "points", POINTS)
    page = client.get("/").content.decode()
    [ramp] = re.findall(r'<linearGradient id="ramp-warm">(.*?)</linearGradient>', page, re.DOTALL)
    assert re.findall(r'offset="(.*?)"', ramp) == ["0%", "33%", "67%", "100%"]
    assert 'fill="url(#ramp-warm)"' in page
    assert re.findall(r'<circle .*? r="(.)"', page) == ["3", "5", "5", "5"]


@pytest.mark.parametrize(("radius", "painted"), [(20, False), (100, True)])
def test_a_tile_beside_the_bounds_is_painted_when_heat_reaches_it(
    client: Client, load: Load, monkeypatch: pytest.MonkeyPatch, radius: int, painted: bool
) -> None:
    load("warm", "points", collection(point(1, [0.2, 0.2])), style={"mode": "heat", "radius": radius})
    tile = Tile("warm", 8, 127, 127)  # its edge is 37 pixels to the west
    assert (painter.paint_tile(work.load_scene("warm")[1], tile) is not painter.encode_empty_tile(1, "png")) is painted
    monkeypatch.setattr("retry.deferral.serve_or_defer", Mock(return_value=HttpResponse("deferred")))
    assert (client.get("/tiles/warm/8/127/127.png").content == b"deferred") is painted


def test_a_hundred_thousand_points_are_compiled_and_painted_in_every_mode() -> None:
    compiled = compiler.compile_layer("points", geojson.many_points(100_000))
    assert compiled.segments == 100_000
    placed = arrays.read_points(compiled.geometry)
    for mode in ("clusters", "heat", "dots"):
        scene = PointScene.of(placed, styles.parse_style("points", {"mode": mode}))
        for tile in (Tile("a", 0, 0, 0), Tile("a", 6, 31, 21, 2), Tile("a", 8, 127, 85)):
            assert painter.paint_tile(scene, tile) is not painter.encode_empty_tile(tile.scale, "png")
