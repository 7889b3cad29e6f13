from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.core.files.storage import default_storage
from django.db import DatabaseError

from resources.models import Layer
from resources.tiles.drawing import scene
from resources.tiles.errors import SpeedsError, UnknownLayerError
from resources.tiles.keeping import files, scenes, storing
from resources.tiles.reading import compiling

from .. import builders
from ..conftest import LINES, Load

HEADER = b"segment_id,speed_kmh,free_flow_kmh\n"


def stored() -> list[str]:
    return sorted(default_storage.listdir("layers/jams")[1])


@pytest.mark.django_db(transaction=True)
def test_replaced_files_are_deleted_and_the_others_stay(load: Load) -> None:
    layer = load()
    assert len(stored()) == 2
    storing.store_speeds("jams", {"north": (7, 50), "nowhere": (1, 2)})
    assert Path(layer.geometry_name).name in stored()
    assert len(stored()) == 2
    load(data=builders.many_lines(5))
    assert len(stored()) == 2
    assert Path(layer.geometry_name).name not in stored()


def test_new_speeds_leave_the_geometry_alone(load: Load) -> None:
    before = load()
    report = storing.store_speeds("jams", {"north": (7, 50), "nowhere": (1, 2)})
    after = Layer.objects.get()
    assert (report.rows, report.unknown, report.unknown_examples) == (2, 1, ("nowhere",))
    assert after.geometry_name == before.geometry_name
    assert after.speeds_name != before.speeds_name
    assert after.version > before.version
    assert after.speeds_known == 1


def test_a_painter_builds_its_index_once_per_geometry(load: Load) -> None:
    load()
    _, first = scenes.load_scene("jams")
    storing.store_speeds("jams", {"north": (7, 50)})
    _, second = scenes.load_scene("jams")
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
    monkeypatch.setattr(scenes, "_find", lambda slug: found.pop(0))
    view, _ = scenes.load_scene("jams")
    assert view.version > 0
    assert found == []


def test_speeds_for_a_geometry_that_was_replaced_meanwhile_are_refused(load: Load) -> None:
    layer = load()
    geometry = files.read(layer.geometry_name)
    compiled = compiling.compile_speeds(geometry, HEADER + b"north,1,50\n")
    load(data=builders.many_lines(3))
    with pytest.raises(SpeedsError, match="Load them again"):
        storing.replace_speeds(layer, compiled, geometry)


@pytest.mark.parametrize(
    "fields",
    [{"min_zoom": 9, "max_zoom": 3}, {"max_zoom": 23}, {"style": {"color": 1}}, {"fresh_seconds": float("nan")}],
)
def test_bad_fields_leave_the_layer_as_it_was(load: Load, fields: dict[str, Any]) -> None:
    before = load()
    with pytest.raises(ValidationError):
        load(data=builders.many_lines(3), **fields)
    after = Layer.objects.get()
    assert (after.version, after.geometry_name) == (before.version, before.geometry_name)
    assert len(stored()) == 2


def test_a_bad_slug_is_refused_before_anything_is_written(load: Load) -> None:
    for slug in ("Jams", "../jams", "a:b", "", "a" * 51):
        with pytest.raises(ValidationError):
            load(slug=slug)
    assert not default_storage.exists("layers")


def test_a_file_that_was_cut_short_is_written_again(load: Load) -> None:
    layer = load()
    path = Path(default_storage.path(layer.geometry_name))
    path.write_bytes(path.read_bytes()[:100])
    load(data=LINES)
    assert storing.segment_ids(Layer.objects.get()) == ["north", "south", "west"]


@pytest.mark.django_db(transaction=True)
def test_a_writer_of_the_same_data_does_not_lose_it_to_another(load: Load) -> None:
    layer = load()
    geometry = files.read(layer.geometry_name)
    same = compiling.compile_speeds(geometry, HEADER + b"north,1,50\n")
    written = files.write_speeds("jams", same)
    storing.replace_speeds(layer, same, geometry)
    storing.store_speeds("jams", {"north": (7, 50)})  # deletes the file of the row before
    storing.put_in_service(layer, written, ())
    assert files.read(Layer.objects.get().speeds_name) == same.data


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("failure", [DatabaseError("locked"), KeyboardInterrupt()])
def test_files_are_deleted_when_putting_them_in_service_fails(
    load: Load, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    load()
    before = stored()

    def failing(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(Layer, "save_base", failing)
    with pytest.raises(type(failure)):
        load(data=builders.many_lines(3))
    assert stored() == before


def test_no_file_is_left_when_the_second_cannot_be_written(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    before = stored()

    def failing(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_speeds", failing)
    with pytest.raises(OSError, match="No space"):
        load(data=builders.many_lines(3))
    assert stored() == before


def test_an_unknown_layer_has_no_speeds_to_replace(db: None) -> None:
    with pytest.raises(UnknownLayerError):
        storing.store_speeds("nowhere", {})
