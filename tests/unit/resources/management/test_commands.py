"""Management commands of layers: load, speeds, expiry and upstream tiles."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import CommandError
from django.db import DatabaseError
from pytest_django import Settings

from resources.tiles import grid, publication
from resources.tiles.data import compiler
from resources.tiles.models import Layer
from tests.support import geojson
from tests.unit.resources.conftest import AREAS, HEAT, LINES, POINTS, TEMPLATE, Load, LoadUpstream, run, weights_of

from ..conftest import PLAIN

pytestmark = pytest.mark.django_db
HEADER = "segment_id,speed_kmh,free_flow_kmh\n"


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.geojson"
    path.write_bytes(LINES)
    return path


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    path = tmp_path / "speeds.csv"
    path.write_text(f"{HEADER}north,10,50\nnowhere,1,2\n")
    return path


def test_load_layer_creates_a_layer_with_its_speeds(lines: Path, speeds: Path) -> None:
    said = run(
        "load_layer", "jams", "--lines", lines, "--speeds", speeds, "--title", "Jams", "--attribution", "All",
        "--min-zoom", 3, "--max-zoom", 15, "--fresh", 30, "--stale", 300, "--order", 7,
        "--style", '{"widths": {"9": 3}}',
    )  # fmt: skip
    layer = Layer.objects.get()
    assert (layer.title, layer.attribution, layer.min_zoom, layer.max_zoom) == ("Jams", "All", 3, 15)
    assert (layer.fresh_seconds, layer.stale_seconds, layer.order, layer.base) == (30, 300, 7, False)
    assert layer.style == {"widths": {"9": 3}}
    assert "3 lines, 6 positions, 1 with speeds" in said
    assert "2 rows, 1 of them for unknown segments (nowhere)" in said


def test_load_layer_measures_how_wide_blocks_may_be(lines: Path, settings: Any) -> None:
    settings.LAYER_BLOCK_SECONDS = 0.5
    run("load_layer", "jams", "--lines", lines, "--min-zoom", 9, "--max-zoom", 12)
    measured = Layer.objects.get().metatiles
    assert measured
    assert set(measured) <= {"9", "10", "11", "12"}
    settings.LAYER_BLOCK_SECONDS = 0
    run("load_layer", "jams", "--lines", lines)
    assert Layer.objects.get().metatiles == {}


def test_load_layer_replaces_the_data_and_keeps_what_is_not_named(lines: Path, tmp_path: Path) -> None:
    run("load_layer", "land", "--lines", lines, "--title", "Land", "--max-zoom", 9)
    areas = tmp_path / "areas.geojson"
    areas.write_bytes(AREAS)
    run("load_layer", "land", "--areas", areas, "--base")
    layer = Layer.objects.get()
    assert (layer.kind, layer.title, layer.max_zoom, layer.base) == ("areas", "Land", 9, True)


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (b"", [], "bad.geojson: The file is empty"),
        (LINES, ["--style", "{"], "--style is not JSON"),
        (LINES, ["--style", "[" * 100_000], "--style is nested too deeply"),
        (LINES, ["--title", "\udcff"], "not UTF-8 text"),
        (b"{", [], "bad.geojson: The file"),
        (LINES, ["--fresh", "nan"], "fresh_seconds"),
        (LINES, ["--min-zoom", "9", "--max-zoom", "5"], "max_zoom"),
        (LINES, ["--speeds", "/nowhere.csv"], "cannot be read"),
    ],
)
def test_load_layer_keeps_old_data_at_errors(
    load: Load, tmp_path: Path, data: bytes, arguments: list[str], message: str
) -> None:
    before = load()
    path = tmp_path / "bad.geojson"
    path.write_bytes(data)
    with pytest.raises(CommandError) as caught:
        run("load_layer", "jams", "--lines", path, *arguments)
    assert message in str(caught.value)
    assert caught.value.returncode == 1
    after = Layer.objects.get()
    assert (after.version, after.geometry_name) == (before.version, before.geometry_name)
    assert publication.segment_ids(after) == ["north", "south", "west"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("load_layer jams --lines /nowhere.geojson", "cannot be read: No such file"),
        ("load_layer jams --lines {folder}", "{folder}: This is a directory, not a file."),
        ("load_speeds jams {folder}", "{folder}: This is a directory, not a file."),
        ("load_layer Big-Jams --lines {folder}", "Small letters"),
    ],
)
def test_a_bad_path_or_slug_is_told(load: Load, tmp_path: Path, command: str, message: str) -> None:
    load()
    with pytest.raises(CommandError, match=message.format(folder=tmp_path)):
        run(*command.format(folder=tmp_path).split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--style", '{"color": 1}'], "style: A style of lines has no"),
        (["--max-zoom", "99"], "max_zoom"),
        (["--fresh", "-1"], "fresh_seconds"),
        (["--bounds", "0,0,0,99"], "bounds"),
    ],
)
def test_bad_settings_are_told_before_reading(
    lines: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(compiler, "compile_layer", Mock(side_effect=AssertionError("the file was read")))
    with pytest.raises(CommandError, match=message):
        run("load_layer", "jams", "--lines", lines, *arguments)


def test_load_speeds_replaces_the_speeds(load: Load, speeds: Path) -> None:
    before = load()
    said = run("load_speeds", "jams", speeds)
    after = Layer.objects.get()
    assert "2 rows, 1 of them for unknown segments (nowhere)" in said
    assert (before.speeds_known, after.speeds_known) == (2, 1)
    assert after.version > before.version


def test_load_speeds_can_leave_the_others_as_they_are(load: Load, speeds: Path) -> None:
    before = load()
    said = run("load_speeds", "jams", speeds, "--update")
    after = Layer.objects.get()
    assert said == "jams: 2 rows, 1 of them for unknown segments (nowhere). Changed segments: 1.\n"
    assert (before.speeds_known, after.speeds_known) == (2, 2)
    assert "Nothing changed" in run("load_speeds", "jams", speeds, "--update")
    assert Layer.objects.get().version == after.version


@pytest.mark.parametrize("options", [[], ["--update"]])
def test_bad_speeds_change_nothing(load: Load, speeds: Path, options: list[str]) -> None:
    before = load()
    speeds.write_text(f"{HEADER}north,10,50\nsouth,NaN,50\n")
    with pytest.raises(CommandError, match=r"speeds.csv: Line 3.*left as they are"):
        run("load_speeds", "jams", speeds, *options)
    assert Layer.objects.get().version == before.version


def test_speeds_need_a_layer_of_lines(load: Load, speeds: Path) -> None:
    load("land", "areas", AREAS)
    with pytest.raises(CommandError, match="only lines have speeds"):
        run("load_speeds", "land", speeds)
    with pytest.raises(CommandError, match="no layer “nowhere”"):
        run("load_speeds", "nowhere", speeds)


def test_expire_makes_a_new_version(load: Load) -> None:
    before = load()
    assert "version" in run("expire", "jams")
    assert Layer.objects.get().version > before.version
    with pytest.raises(CommandError, match="no layer"):
        run("expire", "nowhere")


def test_expire_of_a_part_leaves_the_rest_as_it_is(load: Load) -> None:
    before = load()
    run("expire", "jams", "--bbox=177,-19,-178,-16", "--zoom", "3-5")
    after = Layer.objects.get()
    assert after.data_version == before.data_version
    assert after.expirations == [
        {"version": after.version, "bounds": [177.0, -19.0, -178.0, -16.0], "min_zoom": 3, "max_zoom": 5}
    ]
    run("expire", "jams", "--zoom", "7")
    rule = Layer.objects.get().expirations[-1]
    assert (rule["min_zoom"], rule["max_zoom"]) == (7, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bbox=a,b,c,d"], "west,south,east,north"),
        (["--zoom", "x"], "not a zoom"),
        (["--zoom", "9-3"], "smallest first"),
    ],
)
def test_expire_of_what_is_no_part_changes_nothing(load: Load, arguments: list[str], message: str) -> None:
    before = load()
    with pytest.raises(CommandError, match=message):
        run("expire", "jams", *arguments)
    assert Layer.objects.get().version == before.version


@pytest.mark.parametrize("command", ["load_layer jams --lines {lines}", "load_speeds jams {speeds}", "expire jams"])
def test_failures_are_told(
    load: Load, lines: Path, speeds: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    load()
    for failure, said, code in (
        (DatabaseError("locked"), "database refused the change: locked", 1),
        (KeyboardInterrupt(), "^Stopped. ", 130),
    ):
        monkeypatch.setattr(Layer, "save_base", Mock(side_effect=failure))
        with pytest.raises(CommandError, match=said) as caught:
            run(*command.format(lines=lines, speeds=speeds).split())
        assert caught.value.returncode == code


def test_load_layer_keeps_the_speeds_from_before(load: Load, tmp_path: Path) -> None:
    load()
    path = tmp_path / "new.geojson"
    path.write_bytes(geojson.collection(geojson.line("north", [[-0.2, 51.4], [0.0, 51.7]])))
    assert "1 of the 2 speeds from before were kept" in run("load_layer", "jams", "--lines", path)
    assert Layer.objects.get().speeds_known == 1


def test_progress_is_plain_lines_where_there_is_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "many.geojson"
    path.write_bytes(geojson.many_lines(2500))
    said = run("load_layer", "jams", "--lines", path).splitlines()
    assert said[1:4] == ["1,000 of 2,500 features", "2,000 of 2,500 features", "2,500 of 2,500 features"]


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "points.geojson"
    path.write_bytes(POINTS)
    return path


@pytest.mark.django_db
def test_load_layer_weighs_points_as_the_layers_style_says(points: Path) -> None:
    said = run("load_layer", "quakes", "--points", points, "--style", json.dumps(HEAT))
    layer = Layer.objects.get()
    assert (layer.kind, layer.segments, layer.style) == ("points", 3, HEAT)
    assert weights_of(layer) == [1, 1, 3]
    assert "quakes: 3 points, 3 positions; version" in said
    run("load_layer", "quakes", "--points", points)
    assert weights_of(Layer.objects.get()) == [1, 1, 3]
    run("load_layer", "quakes", "--points", points, "--style", "{}")
    assert weights_of(Layer.objects.get()) == [1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--style", '{"mode": "hot"}'], "style: “mode” is one of clusters, heat, dots"),
        (["--style", '{"weight": "magnitude"}'], "No feature has the property “magnitude”"),
        (["--speeds", __file__], "Only lines have speeds"),
    ],
)
def test_bad_points_leave_the_old_data(load: Load, points: Path, arguments: list[str], message: str) -> None:
    before = load("quakes", "points", POINTS)
    with pytest.raises(CommandError) as caught:
        run("load_layer", "quakes", "--points", points, *arguments)
    assert message in str(caught.value)
    after = Layer.objects.get()
    assert (after.version, after.geometry_name, after.style) == (before.version, before.geometry_name, {})
    assert weights_of(after) == [1, 1, 1]


OTHER = "https://a.example/{z}/{x}/{y}"


def test_load_layer_makes_a_layer_of_another_servers_tiles() -> None:
    said = run(
        "load_layer", "osm", "--upstream", TEMPLATE, "--title", "Streets", "--min-zoom", 2, "--max-zoom", 17,
        "--fresh", 3600, "--stale", 7200, "--most-fresh", 7200, "--bounds=-1,50,1,52", "--base",
    )  # fmt: skip
    layer = Layer.objects.get()
    assert (layer.kind, layer.upstream, layer.title, layer.base) == ("upstream", TEMPLATE, "Streets", True)
    assert (layer.min_zoom, layer.max_zoom, layer.bounds) == (2, 17, [-1, 50, 1, 52])
    assert (layer.fresh_seconds, layer.most_fresh_seconds, layer.stale_seconds) == (3600, 7200, 7200)
    assert f"osm: tiles of tiles.example.org; version {layer.version}." in said
    assert "--attribution" in said
    assert "--attribution" not in run("load_layer", "osm", "--upstream", PLAIN, "--attribution", "All")
    after = Layer.objects.get()
    assert (after.upstream, after.max_zoom, after.title) == (PLAIN, 17, "Streets"), "what is not named stays"
    assert after.version > layer.version


def test_a_long_freshness_of_another_servers_tiles_needs_no_second_number() -> None:
    run("load_layer", "osm", "--upstream", TEMPLATE, "--fresh", 2_592_000)
    assert Layer.objects.get().most_fresh_seconds == 2_592_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--upstream", OTHER, "--lines", "x"], "not allowed with"),
        (["--upstream", OTHER, "--speeds", "x"], "--speeds is only for lines"),
        (["--upstream", OTHER, "--style", '{"widths": {"1": 1}}'], "have no style"),
        (["--upstream", OTHER, "--fresh", "60", "--most-fresh", "5"], "below the fresh"),
        (["--upstream", "https://a.example/{q}"], "Zoom 0 has no quadkey"),
        (["--upstream", OTHER, "--bounds", "1,2"], "not west,south,east,north"),
        (["--upstream", "http://127.0.0.1:9000/{z}/{x}/{y}"], "port 9000 is not fetched from. FETCH_ALLOW_PRIVATE"),
        (["--upstream", f"{OTHER}/\udcff", "--title", "\udcff"], "not UTF-8 text"),
        (["--lines", "x", "--most-fresh", "5"], "--most-fresh is only for tiles of another server"),
        (["--lines", "x", "--in-flight", "5"], "--in-flight is only for tiles of another server"),
        (["--upstream", OTHER, "--in-flight", "0"], "greater than or equal to 1"),
        (["--upstream", OTHER, "--in-flight", "1001"], "less than or equal to 1000"),
    ],
)
def test_mistakes_with_upstream_tiles_are_told(upstream: LoadUpstream, arguments: list[str], message: str) -> None:
    before = upstream()
    with pytest.raises(CommandError, match=message):
        run("load_layer", "osm", *arguments)
    assert Layer.objects.get().version == before.version


def test_a_server_on_this_machine_is_taken_where_it_is_allowed(settings: Settings) -> None:
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1:9000"]
    run("load_layer", "osm", "--upstream", "http://127.0.0.1:9000/{z}/{x}/{y}.png")
    assert Layer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_painted_layer_can_become_one_of_another_servers_tiles_and_back(load: Load, tmp_path: Path) -> None:
    painted = load("osm", style={"widths": {"9": 3}}, max_zoom=12)
    run("load_layer", "osm", "--upstream", TEMPLATE, "--in-flight", 64)
    there = Layer.objects.get()
    assert (there.kind, there.style, there.bounds, there.max_zoom) == ("upstream", {}, grid.WORLD.as_list(), 12)
    assert (there.geometry_name, there.speeds_name, there.segments, there.speeds_known) == ("", "", 0, 0)
    assert there.data_version > painted.data_version  # tiles of before are stale
    assert not list(tmp_path.rglob("*.npz"))
    path = tmp_path / "lines.geojson"
    path.write_bytes(LINES)
    run("load_layer", "osm", "--lines", path)
    back = Layer.objects.get()
    assert (back.kind, back.upstream, back.upstream_in_flight, back.segments) == ("lines", "", None, 3)
    assert back.data_version > there.data_version
