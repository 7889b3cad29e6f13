"""Saved changes: only the touched tiles are stale, unless another process changed the layer too."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.exceptions import ValidationError
from django.core.files.storage import default_storage
from django.db import DatabaseError

from resources import tasks
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits
from resources.tiles import compile_process, layer_files, layers, publication, speed_updates, work
from resources.tiles.data import compiler, speeds
from resources.tiles.errors import LayerBusyError, SpeedsError
from resources.tiles.layers import LayerView
from resources.tiles.models import Layer
from resources.tiles.render import scene
from resources.tiles.staleness import LayerPart
from resources.tiles.tile_marks import TileMarks
from retry import stores
from tests.conftest import RedisServers
from tests.support import geojson

from ..conftest import LINES, OTHER_TEMPLATE, TEMPLATE, Load, LoadUpstream, run

HEADER = b"segment_id,speed_kmh,free_flow_kmh\n"
HOST, OTHER_HOST = "tiles.example.org", "other.example"
WEST, SOUTH = (12, 2045, 1363), (12, 2049, 1362)


def update(*rows: bytes, **options: Any) -> speed_updates.SpeedsUpdate:
    data = HEADER + b"\n".join(rows)
    return speed_updates.update_speeds("jams", lambda geometry: compiler.read_patch(geometry, data, "csv"), **options)


def view() -> LayerView:
    found = layers.layer_snapshot("jams")
    assert found is not None
    return found


def stale(since: Layer) -> set[str]:
    """The places of the two with stale tiles among those painted from a version."""
    places = {"west": WEST, "south": SOUTH}
    return {name for name, tile in places.items() if view().version_for(*tile) > since.version}


def test_new_speeds_make_only_those_tiles_stale_that_show_them_and_changes_add_up(load: Load) -> None:
    before = load()
    update(b"west,10,50")
    between = Layer.objects.get()
    assert stale(before) == {"west"}
    assert view().version > before.version
    update(b"south,45,50")
    assert stale(before) == {"west", "south"}
    assert stale(between) == {"south"}


@pytest.mark.parametrize("saved", [{"style": {"widths": {"12": 8}}}, {"max_zoom": 12}])
def test_all_is_stale_after_other_changes(load: Load, monkeypatch: pytest.MonkeyPatch, saved: dict[str, Any]) -> None:
    before, find = load(), publication.find_speeds_change

    def meanwhile(layer: Layer, *given: Any, **named: Any) -> publication.LayerChange:
        change = find(layer, *given, **named)
        Layer.objects.filter(pk=layer.pk).update(**saved)
        return change

    monkeypatch.setattr(publication, "find_speeds_change", meanwhile)
    update(b"west,10,50")
    assert stale(before) == {"west", "south"}


def test_a_part_that_expired_stays_stale(load: Load) -> None:
    before = load()
    work.expire_layer("jams", LayerPart(min_zoom=12, max_zoom=12))
    update(b"north,10,50")
    assert stale(before) == {"west", "south"}


def test_a_layer_saved_as_a_whole_needs_no_marks(load: Load) -> None:
    load()
    update(b"west,10,50")
    assert TileMarks.unpack(bytes(Layer.objects.get().marks)).count
    work.expire_layer("jams")
    layer = Layer.objects.get()
    assert bytes(layer.marks) == b""
    assert view().version_for(*SOUTH) == layer.version


def test_marks_are_forgotten_when_older_tiles_are_stale_by_age(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load(fresh_seconds=60)
    update(b"west,10,50")
    between = Layer.objects.get().version
    Layer.objects.update(version=between + 700_000_000)
    update(b"south,45,50")
    kept = TileMarks.unpack(bytes(Layer.objects.get().marks))
    assert kept.version_of(*SOUTH) > 0
    assert kept.version_of(*WEST) == 0


def test_a_web_process_has_much_found_out_apart_and_gets_the_same(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = load()
    shapes, before = (layer_files.read_file(name) for name in (layer.geometry_name, layer.speeds_name))
    after, _ = speeds.align_speeds([speeds.SpeedRow("west", 10, 50)], ["north", "south", "west"])
    here = publication.find_speeds_change(layer, shapes, speeds.read_speeds(before), after, in_child=True)
    monkeypatch.setattr(publication, "MAX_CHANGED_IN_PROCESS", 0)
    there = publication.find_speeds_change(layer, shapes, speeds.read_speeds(before), after, in_child=True)
    assert here.touched is not None
    assert there.touched is not None
    assert [there.touched.tiles(z) for z in range(15)] == [here.touched.tiles(z) for z in range(15)]


def test_all_is_stale_where_there_is_no_place_to_find_it_out(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load()
    monkeypatch.setattr(compile_process, "run_in_child", Mock(side_effect=LayerBusyError("others")))
    monkeypatch.setattr(publication, "MAX_CHANGED_IN_PROCESS", 0)
    update(b"west,10,50", in_child=True)
    assert stale(before) == {"west", "south"}


def test_the_first_speeds_of_a_layer_without_any_touch_what_they_colour(load: Load) -> None:
    before = load(data=geojson.collection(geojson.line("a", [[-0.3, 51.4], [-0.2, 51.4]])))
    publication.store_speeds("jams", {"a": (10, 50)})
    assert stale(before) == {"west"}


def test_another_geometry_makes_only_those_tiles_stale_that_it_touches(load: Load) -> None:
    lines = {
        "west": geojson.line("west", [[-0.3, 51.4], [-0.2, 51.4]]),
        "south": geojson.line("south", [[0.0, 51.6], [0.2, 51.4]]),
    }
    before = load(data=geojson.collection(*lines.values()))
    load(data=geojson.collection(lines["south"]))
    assert stale(before) == {"west"}
    assert Layer.objects.get().segments == 1


def test_all_is_stale_where_more_than_the_data_changed_or_the_speeds_of_before_are_lost(load: Load) -> None:
    before = load()
    between = load(title="Other")
    assert stale(before) == {"west", "south"}
    default_storage.delete(between.speeds_name)
    publication.store_speeds("jams", {"west": (10, 50)})
    assert stale(between) == {"west", "south"}


def stored() -> list[str]:
    return sorted(default_storage.listdir("layers/jams")[1])


@pytest.mark.django_db(transaction=True)
def test_replaced_files_are_deleted_and_the_others_stay(load: Load) -> None:
    layer = load()
    assert len(stored()) == 2
    publication.store_speeds("jams", {"north": (7, 50), "nowhere": (1, 2)})
    assert Path(layer.geometry_name).name in stored()
    assert len(stored()) == 2
    load(data=geojson.many_lines(5))
    assert len(stored()) == 2
    assert Path(layer.geometry_name).name not in stored()


def test_a_painter_builds_its_index_once_per_geometry(load: Load) -> None:
    load()
    _, first = work.load_scene("jams")
    publication.store_speeds("jams", {"north": (7, 50)})
    _, second = work.load_scene("jams")
    assert isinstance(first, scene.Scene)
    assert isinstance(second, scene.Scene)
    assert second.index is first.index
    assert second.classes.tolist() != first.classes.tolist()


def test_a_painter_that_misses_a_file_looks_the_layer_up_again(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    outdated = Layer(
        slug="jams", kind="lines", geometry_name="layers/jams/gone.npz", speeds_name="layers/jams/gone.npz"
    )
    found = [outdated, Layer.objects.get()]
    monkeypatch.setattr(work, "_find_painted_layer", lambda slug: found.pop(0))
    view, _ = work.load_scene("jams")
    assert view.version > 0
    assert found == []
    found = [outdated] * work.SCENE_ATTEMPTS
    with pytest.raises(FileNotFoundError):
        work.load_scene("jams")


def test_speeds_for_a_geometry_that_was_replaced_meanwhile_are_refused(load: Load) -> None:
    layer = load()
    geometry = layer_files.read_file(layer.geometry_name)
    compiled = compiler.compile_speeds(geometry, HEADER + b"north,1,50\n")
    load(data=geojson.many_lines(3))
    with pytest.raises(SpeedsError, match="Load them again"):
        publication.replace_speeds(layer, compiled, geometry)


@pytest.mark.parametrize(
    "fields",
    [{"min_zoom": 9, "max_zoom": 3}, {"max_zoom": 23}, {"style": {"color": 1}}, {"fresh_seconds": float("nan")}],
)
def test_bad_fields_leave_the_layer_as_it_was(load: Load, fields: dict[str, Any]) -> None:
    before = load()
    with pytest.raises(ValidationError):
        load(data=geojson.many_lines(3), **fields)
    after = Layer.objects.get()
    assert (after.version, after.geometry_name) == (before.version, before.geometry_name)
    assert len(stored()) == 2


def test_a_bad_slug_is_refused_before_anything_is_written(load: Load) -> None:
    for slug in ("Jams", "../jams", "a:b", "", "a" * 51):
        with pytest.raises(ValidationError):
            load(slug=slug)
    assert not default_storage.exists("layers")


def test_a_file_that_was_cut_short_is_written_again(load: Load) -> None:
    path = Path(default_storage.path(load().geometry_name))
    path.write_bytes(path.read_bytes()[:100])
    load(data=LINES)
    assert publication.segment_ids(Layer.objects.get()) == ["north", "south", "west"]


@pytest.mark.django_db(transaction=True)
def test_a_writer_of_the_same_data_does_not_lose_it_to_another(load: Load) -> None:
    layer = load()
    geometry = layer_files.read_file(layer.geometry_name)
    same = compiler.compile_speeds(geometry, HEADER + b"north,1,50\n")
    written = layer_files.write_speeds_file("jams", same)
    publication.replace_speeds(layer, same, geometry)
    publication.store_speeds("jams", {"north": (7, 50)})  # deletes the file of the row before
    publication.publish_layer(layer, written, ())
    assert layer_files.read_file(Layer.objects.get().speeds_name) == same.data


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("place", "name", "failure"),
    [
        pytest.param(Layer, "save_base", DatabaseError("locked"), id="the database refuses"),
        pytest.param(Layer, "save_base", KeyboardInterrupt(), id="interrupted"),
        pytest.param(layer_files, "write_speeds_file", OSError(28, "No space left"), id="the second does not fit"),
    ],
)
def test_files_are_deleted_when_publishing_fails(
    load: Load, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, failure: BaseException
) -> None:
    load()
    before = stored()
    monkeypatch.setattr(place, name, Mock(side_effect=failure))
    with pytest.raises(type(failure)):
        load(data=geojson.many_lines(3))
    assert stored() == before


def limits_in_force(scope: str = HOST) -> DomainLimits:
    return stores.run_steps(queue.read_limits_in_force([scope]))[0].limits


@pytest.mark.django_db(transaction=True)
def test_the_number_is_in_force_as_soon_as_a_layer_has_it_and_gone_with_the_layer(redis_servers: RedisServers) -> None:
    run("load_layer", "osm", "--upstream", TEMPLATE, "--in-flight", 64)
    assert limits_in_force() == DomainLimits(0, 64, 0)
    run("load_layer", "osm", "--upstream", OTHER_TEMPLATE)
    assert [limits_in_force(), limits_in_force(OTHER_HOST)] == [DomainLimits(), DomainLimits(0, 64, 0)]
    publication.delete_layers(Layer.objects.all())
    assert limits_in_force(OTHER_HOST) == DomainLimits()


def test_what_a_change_could_not_reach_is_mended_by_the_periodic_task(
    redis_servers: RedisServers, upstream: LoadUpstream
) -> None:
    upstream(upstream_in_flight=64)  # within the transaction of the test, so that nothing follows it
    assert limits_in_force() == DomainLimits()
    tasks.apply_fetch_limits()
    assert limits_in_force() == DomainLimits(0, 64, 0)
    Layer.objects.all().delete()
    tasks.apply_fetch_limits()
    assert limits_in_force() == DomainLimits()


def test_subdomains_share_the_number_and_of_several_layers_the_least_counts(upstream: LoadUpstream) -> None:
    upstream("a", "https://{s:1234}.example.org/{z}/{x}/{y}.png", upstream_in_flight=30)
    upstream("b", "https://1.example.org/{z}/{x}/{y}.png", upstream_in_flight=5)
    upstream("c", OTHER_TEMPLATE)
    assert publication.find_own_servers() == {f"{name}.example.org": 5 if name == "1" else 7 for name in "1234"}
