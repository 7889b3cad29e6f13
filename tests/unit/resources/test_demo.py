"""The demo: its generated speeds, its loading, and the page before and after."""

from functools import cache
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client

from resources import tasks
from resources.demo import demo_layers, load
from resources.tiles import layer_files, publication
from resources.tiles.data import arrays, compiler
from resources.tiles.models import Layer

pytestmark = pytest.mark.django_db
compile_once = cache(compiler.compile_layer)


@pytest.fixture(autouse=True)
def _quickly_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiles each file once for all tests."""
    monkeypatch.setattr(compiler, "compile_layer", compile_once)


def test_speeds_stay_between_standing_and_free_flow() -> None:
    segments = load.read_segments()
    for seconds in range(0, 3600, 240):
        found = demo_layers.speeds_at(seconds, segments)
        assert all(0 < found[each.key] <= each.free_flow_kmh for each in segments if each.key in found)


def test_speeds_change_smoothly() -> None:
    segments = load.read_segments()
    before, after = demo_layers.speeds_at(1000, segments), demo_layers.speeds_at(1005, segments)
    assert before != after
    assert max(abs(after[key] - before[key]) for key in before) < 6


def test_at_every_time_some_lines_are_free_and_some_are_jammed() -> None:
    segments = load.read_segments()
    flow = {each.key: each.free_flow_kmh for each in segments}
    for seconds in range(0, 7200, 300):
        shares = [speed / flow[key] for key, speed in demo_layers.speeds_at(seconds, segments).items()]
        assert min(shares) < 0.5
        assert max(shares) > 0.8


def test_a_line_without_data_has_no_speed() -> None:
    found = demo_layers.speeds_at(0, load.read_segments())
    missing = {each.line for each in load.read_segments() if each.key not in found}
    assert missing == {"Waterloo & City"}


def test_the_demo_loads_its_layers_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("demo")
    assert set(Layer.objects.values_list("slug", flat=True)) == {layer.slug for layer in demo_layers.DEMO_LAYERS}
    assert len(capsys.readouterr().out.splitlines()) == len(demo_layers.DEMO_LAYERS)
    call_command("demo")
    assert capsys.readouterr().out == "The demo's layers are there already.\n"
    for layer in Layer.objects.all():
        layer.full_clean()


def test_loading_again_brings_back_what_is_missing_and_leaves_the_rest_alone() -> None:
    call_command("demo")
    Layer.objects.filter(slug="land").update(title="Dry land")
    Layer.objects.filter(slug="london").delete()
    before = list(Layer.objects.values_list("slug", "version"))
    call_command("demo")
    assert Layer.objects.get(slug="land").title == "Dry land"
    assert set(Layer.objects.exclude(slug="london").values_list("slug", "version")) == set(before)
    assert Layer.objects.filter(slug="london").exists()


def test_what_an_admin_deleted_is_not_loaded_again_when_the_site_starts(tmp_path: Path) -> None:
    memory = tmp_path / "demo_loaded"
    call_command("demo", once=memory)
    assert Layer.objects.count() == len(demo_layers.DEMO_LAYERS)
    Layer.objects.filter(slug="london").delete()
    call_command("demo", once=memory)
    assert not Layer.objects.filter(slug="london").exists()


def test_a_site_that_has_the_demo_gets_layers_that_are_new_to_it(tmp_path: Path) -> None:
    memory = tmp_path / "demo_loaded"
    memory.touch()
    call_command("demo", once=memory)
    assert list(Layer.objects.values_list("slug", flat=True)) == ["earthquakes"]
    assert set(memory.read_text().split()) == {layer.slug for layer in demo_layers.DEMO_LAYERS}


def test_earthquakes_are_points_weighed_by_their_magnitude(client: Client) -> None:
    call_command("demo")
    layer = Layer.objects.get(slug="earthquakes")
    assert (layer.kind, layer.segments) == ("points", 1635)
    placed = arrays.read_points(layer_files.read_file(layer.geometry_name))
    assert (placed.weights.min(), placed.weights.max()) == (0, 6.4)
    page = client.get("/").content.decode()
    assert 'data-layer="earthquakes"' in page
    assert "U.S. Geological Survey" in page


def test_the_undergrounds_layer_has_speeds_and_says_that_they_are_generated() -> None:
    call_command("demo")
    layer = Layer.objects.get(slug=demo_layers.JAMS_SLUG)
    assert layer.segments - 20 < layer.speeds_known < layer.segments
    assert "generated" in layer.note
    values = demo_layers.speeds_with_free_flow(0, load.read_segments())
    assert publication.store_speeds(demo_layers.JAMS_SLUG, values).unknown == 0


def test_the_page_says_how_to_load_layers_and_switches_and_explains_those_of_the_demo(client: Client) -> None:
    empty = client.get("/").content.decode()
    assert "manage.py load_layer" in empty
    assert "manage.py demo" in empty
    assert "map-data" not in empty
    call_command("demo")
    Layer.objects.filter(slug="land").update(enabled=False)
    page = client.get("/").content.decode()
    assert 'data-layer="jams"' in page
    assert 'data-layer="land"' not in page
    assert "generated" in page
    assert page.index("Overlays") < page.index("Base map")


def test_the_speeds_of_the_demo_vary_until_its_layer_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    call_command("demo")
    before = Layer.objects.get(slug=demo_layers.JAMS_SLUG).version
    tasks.vary_demo()
    assert Layer.objects.get(slug=demo_layers.JAMS_SLUG).version > before
    Layer.objects.all().delete()
    tasks.vary_demo()
    assert not Layer.objects.exists()
    assert not [record for record in caplog.records if record.name == "tarry.tasks"]


def test_the_demo_waits_for_its_database(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(load, "store_demo_speeds", Mock(side_effect=OperationalError("away")))
    tasks.vary_demo()
    assert caplog.records[0].message == "the demo waits"
