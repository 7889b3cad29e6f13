"""Layers of another server's tiles, as the command and the admin make and change them."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.test import Client
from pytest_django import Settings

from resources.tiles import grid
from resources.tiles.models import Layer
from tests.unit.resources.conftest import LINES, Load

from ..conftest import run
from ..test_admin import ADD, change, errors_of, form, upload
from .conftest import TEMPLATE, LoadUpstream

PLAIN = "https://tiles.example.org/{z}/{x}/{y}.png?key=secret"
OTHER = "https://a.example/{z}/{x}/{y}"


@pytest.mark.django_db
def test_load_layer_makes_one_with_its_settings() -> None:
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


def test_what_is_not_named_stays(upstream: LoadUpstream) -> None:
    before = upstream(max_zoom=9)
    run("load_layer", "osm", "--upstream", PLAIN)
    after = Layer.objects.get()
    assert (after.upstream, after.max_zoom, after.title) == (PLAIN, 9, "Streets")
    assert after.version > before.version


@pytest.mark.django_db
def test_a_long_freshness_needs_no_second_number() -> None:
    run("load_layer", "osm", "--upstream", TEMPLATE, "--fresh", 2_592_000)
    assert Layer.objects.get().most_fresh_seconds == 2_592_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--upstream", ""], "upstream: The address does not say which tile"),
        (["--upstream", OTHER, "--lines", "x"], "not allowed with"),
        (["--upstream", OTHER, "--speeds", "x"], "--speeds is only for lines"),
        (["--upstream", OTHER, "--style", '{"widths": {"1": 1}}'], "have no style"),
        (["--upstream", OTHER, "--fresh", "60", "--most-fresh", "5"], "below the fresh"),
        (["--upstream", "https://a.example/{q}"], "Zoom 0 has no quadkey"),
        (["--upstream", OTHER, "--bounds", "1,2"], "not west,south,east,north"),
        (["--upstream", OTHER, "--bounds", "a,b,c,d"], "not west,south,east,north"),
        (["--upstream", OTHER, "--most-fresh", "nan"], "most_fresh_seconds"),
        (["--upstream", "https://u:p@a.example/{z}/{x}/{y}"], "user or password"),
        (["--upstream", "http://127.0.0.1:9000/{z}/{x}/{y}"], "port 9000 is not fetched from. FETCH_ALLOW_PRIVATE"),
        (["--upstream", "http://10.0.0.1/{z}/{x}/{y}"], "not global"),
        (["--upstream", f"{OTHER}/\udcff", "--title", "\udcff"], "not UTF-8 text"),
        (["--lines", "x", "--most-fresh", "5"], "--most-fresh is only for tiles of another server"),
    ],
)
def test_load_layer_says_what_is_wrong_and_changes_nothing(
    upstream: LoadUpstream, arguments: list[str], message: str
) -> None:
    before = upstream()
    with pytest.raises(CommandError, match=message):
        run("load_layer", "osm", *arguments)
    assert Layer.objects.get().version == before.version


@pytest.mark.django_db
def test_a_server_on_this_machine_is_taken_where_it_is_allowed(settings: Settings) -> None:
    settings.FETCH_ALLOW_PRIVATE = ["127.0.0.1:9000"]
    run("load_layer", "osm", "--upstream", "http://127.0.0.1:9000/{z}/{x}/{y}.png")
    assert Layer.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_layer_can_become_one_and_a_painted_one_again(load: Load, tmp_path: Path) -> None:
    painted = load("osm", style={"widths": {"9": 3}}, max_zoom=12)
    run("load_layer", "osm", "--upstream", TEMPLATE)
    there = Layer.objects.get()
    assert (there.kind, there.style, there.bounds, there.max_zoom) == ("upstream", {}, grid.WORLD.as_list(), 12)
    assert (there.geometry_name, there.speeds_name, there.segments, there.speeds_known) == ("", "", 0, 0)
    assert there.data_version > painted.data_version  # tiles of before are stale
    assert not list(tmp_path.rglob("*.npz"))
    path = tmp_path / "lines.geojson"
    path.write_bytes(LINES)
    run("load_layer", "osm", "--lines", path)
    back = Layer.objects.get()
    assert (back.kind, back.upstream, back.segments) == ("lines", "", 3)
    assert back.data_version > there.data_version


def test_speeds_are_refused(upstream: LoadUpstream, tmp_path: Path) -> None:
    upstream()
    path = tmp_path / "speeds.csv"
    path.write_text("segment_id,speed_kmh,free_flow_kmh\na,1,2\n")
    for options in ([], ["--update"]):
        with pytest.raises(CommandError, match="only lines have speeds"):
            run("load_speeds", "osm", path, *options)


def sent(**fields: Any) -> dict[str, Any]:
    return {**form(slug="osm", kind="upstream", upstream=TEMPLATE, style=""), **fields}


def test_the_admin_makes_one_without_a_file(admin_client: Client) -> None:
    assert admin_client.post(ADD, sent()).status_code == 302
    layer = Layer.objects.get()
    assert (layer.kind, layer.upstream, layer.most_fresh_seconds) == ("upstream", TEMPLATE, 604_800)
    shown = admin_client.get(change(layer)).content.decode()
    assert 'href="/tiles/osm/0/0/0@2x.png"' in shown
    assert admin_client.get("/admin/resources/layer/").status_code == 200
    assert admin_client.post(change(layer), sent(title="Other")).status_code == 302
    assert Layer.objects.get().version > layer.version


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"upstream": ""}, "upstream"),
        ({"upstream": "https://a.example/{z}"}, "upstream"),
        ({"style": '{"widths": {"1": 1}}'}, "style"),
        ({"most_fresh_seconds": 5}, "most_fresh_seconds"),
        ({"fresh_seconds": "nan"}, "fresh_seconds"),
        ({"kind": "lines"}, "upstream"),
    ],
)
def test_the_admin_tells_what_is_wrong_at_its_field(admin_client: Client, fields: dict[str, Any], field: str) -> None:
    assert field in errors_of(admin_client.post(ADD, sent(**fields)))
    assert not Layer.objects.exists()


def test_the_admin_takes_no_files_for_one(admin_client: Client, upstream: LoadUpstream) -> None:
    layer = upstream()
    for name in ("geometry_file", "speeds_file"):
        response = admin_client.post(change(layer), sent(**{name: upload(LINES)}))
        assert "has no data" in errors_of(response)[name][0]


@pytest.mark.django_db(transaction=True)
def test_the_admin_changes_the_kind_there_and_back(admin_client: Client, load: Load, tmp_path: Path) -> None:
    layer = load("osm", style={"widths": {"9": 3}})
    assert admin_client.post(change(layer), sent(style=json.dumps(layer.style))).status_code == 302
    there = Layer.objects.get()
    assert (there.kind, there.style, there.geometry_name, there.segments) == ("upstream", {}, "", 0)
    assert not list(tmp_path.rglob("*.npz"))
    assert "geometry_file" in errors_of(admin_client.post(change(layer), sent(kind="lines")))
    assert admin_client.post(change(layer), sent(kind="lines", geometry_file=upload(LINES))).status_code == 302
    after = Layer.objects.get()
    assert (after.kind, after.upstream, after.segments) == ("lines", "", 3)
