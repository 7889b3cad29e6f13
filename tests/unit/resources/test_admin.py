"""The admin of layers: uploads, settings, actions and upstream tiles."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import DatabaseError, connection
from django.test import Client

from resources.bucket import Bucket
from resources.tiles import compile_process, grid, layer_files, layers, publication
from resources.tiles.data import speeds
from resources.tiles.errors import LayerError, SpeedsError
from resources.tiles.models import Layer
from tests.support import geojson
from tests.support.admin_pages import errors_of, said
from tests.unit.resources.conftest import HEAT, LINES, POINTS, TEMPLATE, Load, LoadUpstream, weights_of

ADD = "/admin/resources/layer/add/"
SPEEDS = b"segment_id,speed_kmh,free_flow_kmh\nnorth,10,50\nnowhere,1,2\n"


@pytest.fixture(autouse=True)
def _in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls jobs here, unless the test uses `child_processes`: a child takes half a second."""
    if "child_processes" not in request.fixturenames:
        monkeypatch.setattr(compile_process, "run_in_child", lambda job, _: job())


@pytest.fixture
def child_processes() -> None:
    """Leaves jobs to child processes."""


def form(**fields: Any) -> dict[str, Any]:
    return {
        "slug": "jams",
        "title": "Jams",
        "kind": "lines",
        "enabled": "on",
        "order": 0,
        "style": "{}",
        "min_zoom": 0,
        "max_zoom": 18,
        "bounds": str(grid.WORLD.as_list()),
        "fresh_seconds": 60,
        "stale_seconds": 600,
        **fields,
    }


def upload(data: bytes, name: str = "data.geojson") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data)


def change(layer: Layer) -> str:
    return f"/admin/resources/layer/{layer.pk}/change/"


@pytest.mark.usefixtures("child_processes")
def test_an_upload_makes_a_layer(admin_client: Client) -> None:
    sent = form(geometry_file=upload(LINES), speeds_file=upload(SPEEDS, "speeds.csv"))
    response = admin_client.post(ADD, sent, follow=True)
    assert "2 rows, 1 of them for unknown segments (nowhere)." in said(response)
    layer = Layer.objects.get()
    assert (layer.segments, layer.speeds_known) == (3, 1)
    assert layer.bounds == [-0.3, 51.4, 0.2, 51.6]
    assert publication.segment_ids(layer) == ["north", "south", "west"]


@pytest.mark.parametrize(
    ("field", "data", "message"),
    [
        ("geometry_file", LINES.replace(b"51.6", b"510.6"), "not on Earth"),
        ("speeds_file", SPEEDS.replace(b"10", b"NaN"), "Line 2"),
        ("speeds_file", SPEEDS.replace(b"north", b"nobody"), "None of the 2 segment_ids (nobody, nowhere)"),
    ],
)
def test_bad_uploads_leave_old_data(admin_client: Client, load: Load, field: str, data: bytes, message: str) -> None:
    before = load()
    response = admin_client.post(change(before), form(**{field: upload(data)}))
    assert list(errors_of(response)) == [field]
    assert message in errors_of(response)[field][0]
    after = Layer.objects.get()
    assert (after.version, after.geometry_name) == (before.version, before.geometry_name)
    assert publication.segment_ids(after) == ["north", "south", "west"]


def test_a_file_that_is_too_big_is_refused(admin_client: Client, load: Load, settings: Any) -> None:
    layer = load()
    settings.LAYER_MAX_BYTES = 100
    response = admin_client.post(change(layer), form(geometry_file=upload(LINES)))
    assert "too big" in errors_of(response)["geometry_file"][0]


@pytest.mark.usefixtures("child_processes")
@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        ("LAYER_COMPILE_SECONDS", 0.01, "took longer"),
        ("LAYER_COMPILE_BYTES", 10_000_000, "too large for this machine"),  # less than the process has already
    ],
)
def test_a_file_that_takes_too_long_or_too_much_memory_is_refused(
    admin_client: Client, settings: Any, limit: str, value: float, said: str
) -> None:
    setattr(settings, limit, value)
    response = admin_client.post(ADD, form(geometry_file=upload(geojson.many_lines(5_000))))
    assert said in errors_of(response)["geometry_file"][0]
    assert not Layer.objects.exists()


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (EndpointConnectionError(endpoint_url="http://s3.example"), "http://s3.example"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_a_storage_that_fails_is_told_at_the_field_and_nothing_is_saved(
    admin_client: Client, load: Load, monkeypatch: pytest.MonkeyPatch, failure: Exception, said: str
) -> None:
    layer = load()
    storage = type(default_storage._wrapped)  # type: ignore[attr-defined]
    monkeypatch.setattr(storage, "errors", Bucket.errors, raising=False)
    monkeypatch.setattr(storage, "_save", Mock(side_effect=failure))
    response = admin_client.post(change(layer), form(geometry_file=upload(LINES)))
    assert "data could not be stored" in errors_of(response)["geometry_file"][0]
    assert said in errors_of(response)["geometry_file"][0]
    monkeypatch.setattr(storage, "_open", Mock(side_effect=failure))
    response = admin_client.post(change(layer), form(speeds_file=upload(SPEEDS)))
    assert "data could not be stored" in errors_of(response)["speeds_file"][0]
    assert Layer.objects.get().version == layer.version


def test_a_new_layer_needs_its_geometry(admin_client: Client) -> None:
    assert "geometry_file" in errors_of(admin_client.post(ADD, form(slug="other")))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("style", '{"color": 1}'),
        ("style", "{"),
        ("bounds", "[1, 2]"),
        ("bounds", f"[0, 0, 1{'0' * 400}, 1]"),
        ("bounds", ""),
        ("style", f'{{"thresholds": [1{"0" * 5000}, 0.5, 0.2]}}'),
        ("style", "[" * 100_000),
        ("style", '{"\\ud800": 1}'),
        ("slug", "Big Jams"),
        ("max_zoom", 30),
        ("fresh_seconds", "nan"),
        ("fresh_seconds", -1),
    ],
)
def test_bad_settings_are_told_at_their_field(admin_client: Client, load: Load, field: str, value: Any) -> None:
    assert list(errors_of(admin_client.post(change(load()), form(**{field: value})))) == [field]


def test_saved_settings_keep_newer_speeds(admin_client: Client, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = load()
    original = publication.publish_layer

    def with_new_speeds(edited: Layer, *rest: Any, **named: Any) -> None:
        monkeypatch.setattr(publication, "publish_layer", original)
        publication.store_speeds("jams", {"west": (9, 50)})
        original(edited, *rest, **named)

    monkeypatch.setattr(publication, "publish_layer", with_new_speeds)
    sent = form(title="Renamed", bounds=str(layer.bounds))
    assert admin_client.post(change(layer), sent).status_code == 302
    after = Layer.objects.get()
    assert (after.title, after.speeds_known) == ("Renamed", 1)
    assert after.version > layer.version


@pytest.mark.parametrize(
    ("sent", "stale"),
    [
        ({"geometry_file": LINES.replace(b"[-0.3, 51.4]", b"[-0.3, 51.41]")}, {"west"}),
        ({"speeds_file": SPEEDS.replace(b"north,10,50", b"north,50,50\nwest,10,50")}, {"west", "south"}),
        ({"geometry_file": LINES, "title": "Other"}, {"west", "south", "north"}),
    ],
)
def test_uploads_mark_touched_tiles(admin_client: Client, load: Load, sent: dict[str, Any], stale: set[str]) -> None:
    before = load(stale_seconds=600)
    given = {name: value if name == "title" else upload(value) for name, value in sent.items()}
    same = {"bounds": str(before.bounds), "most_fresh_seconds": before.most_fresh_seconds}
    assert admin_client.post(change(before), form(**{**same, **given})).status_code == 302
    after = layers.layer_snapshot("jams")
    assert after
    assert after.version > before.version
    places = {"west": (12, 2045, 1363), "south": (12, 2049, 1362), "north": (12, 2047, 1361)}
    assert {name for name, tile in places.items() if after.version_for(*tile) > before.version} == stale


def test_the_form_links_to_a_preview_of_a_layer_that_is_on(admin_client: Client, load: Load) -> None:
    layer = load()
    page = admin_client.get(change(layer)).content.decode()
    assert "/tiles/jams.json" in page
    assert "/tiles/jams/" in page
    assert 'href="/layers/jams/"' in page
    assert 'href="/#10/51.50000/-0.05000"' in page
    Layer.objects.update(enabled=False)
    assert "/tiles/jams.json" not in admin_client.get(change(layer)).content.decode()


@pytest.mark.django_db(transaction=True)
def test_deleting_a_layer_deletes_its_files(admin_client: Client, load: Load, tmp_path: Path) -> None:
    admin_client.post(f"/admin/resources/layer/{load().pk}/delete/", {"post": "yes"})
    assert not Layer.objects.exists()
    assert not list(tmp_path.rglob("*.npz"))


@pytest.mark.django_db(transaction=True)
def test_an_upload_is_compiled_outside_of_a_transaction(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_layer, held = compile_process.compile_layer_in_child, []

    def compiling(*arguments: Any) -> Any:
        held.append(connection.in_atomic_block)
        return compile_layer(*arguments)

    monkeypatch.setattr(compile_process, "compile_layer_in_child", compiling)
    assert admin_client.post(ADD, form(geometry_file=upload(LINES))).status_code == 302
    assert held == [False]


def test_an_upload_wants_the_forms_token(admin_user: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert client.post(ADD, form(geometry_file=upload(LINES))).status_code == 403


def test_speeds_for_a_geometry_that_is_lost_are_told_at_their_field(admin_client: Client, load: Load) -> None:
    layer = load()
    default_storage.delete(layer.geometry_name)
    response = admin_client.post(change(layer), form(speeds_file=upload(SPEEDS, "speeds.csv")))
    assert "geometry is lost" in errors_of(response)["speeds_file"][0]


@pytest.mark.parametrize("error", [SpeedsError("The layer was replaced."), DatabaseError("database is locked")])
def test_failed_saves_are_told(
    admin_client: Client, load: Load, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    layer = load()
    monkeypatch.setattr(publication, "publish_layer", Mock(side_effect=error))
    response = admin_client.post(change(layer), form(title="New"), follow=True)
    assert said(response) == [f"Nothing was saved: {error}"]


def test_an_empty_style_is_the_default_one(admin_client: Client, load: Load) -> None:
    assert admin_client.post(change(load(style={"widths": {"9": 3}})), form(style="")).status_code == 302
    assert Layer.objects.get().style == {}


def test_speeds_are_kept_when_the_geometry_is_replaced(admin_client: Client, load: Load) -> None:
    layer = load()
    data = geojson.collection(geojson.line("south", [[0.0, 51.6], [0.2, 51.4]]), geojson.line("new", [[0, 1], [1, 2]]))
    response = admin_client.post(change(layer), form(geometry_file=upload(data)), follow=True)
    assert "1 of the 2 speeds from before were kept." in said(response)
    known = speeds.read_speeds(layer_files.read_file(Layer.objects.get().speeds_name))
    assert known.speed_kmh.tolist()[0] == 5
    assert Layer.objects.get().speeds_known == 1


def test_typed_bounds_are_kept_beside_an_upload(admin_client: Client) -> None:
    sent = form(geometry_file=upload(LINES), bounds="[-1, 51, 1, 52]")
    assert admin_client.post(ADD, sent).status_code == 302
    assert Layer.objects.get().bounds == [-1, 51, 1, 52]


@pytest.mark.parametrize(
    ("action", "before", "after"), [("expire", True, True), ("switch_on", False, True), ("switch_off", True, False)]
)
def test_actions_make_new_versions(admin_client: Client, load: Load, action: str, before: bool, after: bool) -> None:
    layer = load(enabled=before)
    admin_client.post("/admin/resources/layer/", {"action": action, "_selected_action": [layer.pk]})
    now = Layer.objects.get()
    assert now.enabled is after
    assert now.version > layer.version


def test_an_upload_is_measured_and_the_form_tells_its_blocks(admin_client: Client, settings: Any) -> None:
    settings.LAYER_BLOCK_SECONDS = 0.5
    admin_client.post(ADD, form(geometry_file=upload(LINES)))
    layer = Layer.objects.get()
    assert layer.metatiles
    layer.metatiles = {"0": 1, "9": 8}
    layer.save(update_fields=("metatiles",))
    assert "8 × 8 tiles at zooms 9 to 18" in admin_client.get(change(layer)).content.decode()


@pytest.mark.parametrize(
    ("changed", "measured"),
    [
        ({"max_zoom": 3}, True),
        ({"style": '{"widths": {"0": 9}}'}, True),
        ({"style": '{"colours": {"green": "#00ff00"}, "thresholds": [0.9, 0.5, 0.1]}'}, False),
        ({"title": "Another"}, False),
    ],
)
def test_blocks_are_measured_again_when_tiles_may_cost_otherwise(
    admin_client: Client, load: Load, settings: Any, changed: dict[str, Any], measured: bool
) -> None:
    settings.LAYER_BLOCK_SECONDS = 0.5
    layer = load()
    Layer.objects.update(metatiles={"0": 1})
    assert admin_client.post(change(layer), form(bounds=str(layer.bounds), **changed)).status_code == 302
    after = Layer.objects.get().metatiles
    assert (after != {"0": 1}) is measured
    assert not measured or max(map(int, after)) <= changed.get("max_zoom", 18)


def test_blocks_stay_when_measuring_fails(admin_client: Client, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = load()
    Layer.objects.update(metatiles={"0": 1})
    monkeypatch.setattr(compile_process, "run_in_child", Mock(side_effect=LayerError("took too long")))
    assert admin_client.post(change(layer), form(bounds=str(layer.bounds), max_zoom=3)).status_code == 302
    assert (Layer.objects.get().max_zoom, Layer.objects.get().metatiles) == (3, {"0": 1})


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
        ({"kind": "lines", "geometry_file": POINTS}, "geometry_file", "is a Point; a layer of lines"),
        ({"kind": "lines"}, "geometry_file", "A layer of this kind needs its GeoJSON"),
        ({"kind": "points", "style": '{"radius": 1}'}, "style", "“radius” of clusters is 20 to 200 pixels"),
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


def upstream_form(**fields: Any) -> dict[str, Any]:
    return {**form(slug="osm", kind="upstream", upstream=TEMPLATE, style=""), **fields}


def test_a_layer_of_another_servers_tiles_is_made_without_a_file(admin_client: Client) -> None:
    assert admin_client.post(ADD, upstream_form()).status_code == 302
    layer = Layer.objects.get()
    assert (layer.kind, layer.upstream, layer.most_fresh_seconds) == ("upstream", TEMPLATE, 604_800)
    assert 'href="/tiles/osm/0/0/0@2x.png"' in admin_client.get(change(layer)).content.decode()
    assert admin_client.get("/admin/resources/layer/").status_code == 200
    assert admin_client.post(change(layer), upstream_form(title="Other")).status_code == 302
    assert Layer.objects.get().version > layer.version


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"upstream": ""}, "upstream"),
        ({"style": '{"widths": {"1": 1}}'}, "style"),
        ({"most_fresh_seconds": 5}, "most_fresh_seconds"),
        ({"kind": "lines"}, "upstream"),
        ({"kind": "lines", "upstream": "", "upstream_in_flight": 5}, "upstream_in_flight"),
        ({"upstream_in_flight": 0}, "upstream_in_flight"),
    ],
)
def test_mistakes_with_upstream_tiles_are_told(admin_client: Client, fields: dict[str, Any], field: str) -> None:
    assert field in errors_of(admin_client.post(ADD, upstream_form(**fields)))
    assert not Layer.objects.exists()


def test_another_servers_tiles_take_no_files(admin_client: Client, upstream: LoadUpstream) -> None:
    layer = upstream()
    for name in ("geometry_file", "speeds_file"):
        response = admin_client.post(change(layer), upstream_form(**{name: upload(LINES)}))
        assert "has no data" in errors_of(response)[name][0]


@pytest.mark.django_db(transaction=True)
def test_the_kind_is_changed_there_and_back(admin_client: Client, load: Load, tmp_path: Path) -> None:
    layer = load("osm", style={"widths": {"9": 3}})
    assert admin_client.post(change(layer), upstream_form(style=json.dumps(layer.style))).status_code == 302
    there = Layer.objects.get()
    assert (there.kind, there.style, there.geometry_name, there.segments) == ("upstream", {}, "", 0)
    assert not list(tmp_path.rglob("*.npz"))
    assert "geometry_file" in errors_of(admin_client.post(change(layer), upstream_form(kind="lines")))
    assert admin_client.post(change(layer), upstream_form(kind="lines", geometry_file=upload(LINES))).status_code == 302
    after = Layer.objects.get()
    assert (after.kind, after.upstream, after.segments) == ("lines", "", 3)
