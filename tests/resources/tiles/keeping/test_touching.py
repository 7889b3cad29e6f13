"""Changes and what is saved of them: only what they touch is stale, unless somebody else changed the layer too."""

from typing import Any

import pytest

from resources.models import Layer
from resources.tiles import layers
from resources.tiles.drawing import painting
from resources.tiles.errors import BusyError
from resources.tiles.expirations import Part
from resources.tiles.keeping import apart, expiring, files, scenes, storing, touching, updating
from resources.tiles.layers import LayerView
from resources.tiles.marks import Marks
from resources.tiles.reading import patching, speeds
from resources.tiles.tile import Tile

from .. import builders
from ..conftest import Load

HEADER = b"segment_id,speed_kmh,free_flow_kmh\n"
WEST, SOUTH = (12, 2045, 1363), (12, 2049, 1362)


def update(*rows: bytes, **options: Any) -> updating.Update:
    data = HEADER + b"\n".join(rows)
    return updating.update_speeds("jams", lambda geometry: patching.read_patch(geometry, data, "csv"), **options)


def view() -> LayerView:
    found = layers.layer_snapshot("jams")
    assert found is not None
    return found


def stale(since: Layer) -> set[str]:
    """Which of the two places have tiles that are stale which were painted from a version."""
    places = {"west": WEST, "south": SOUTH}
    return {name for name, tile in places.items() if view().version_for(*tile) > since.version}


def test_new_speeds_make_only_those_tiles_stale_that_show_them(load: Load) -> None:
    before = load()
    update(b"west,10,50")
    assert stale(before) == {"west"}
    assert view().version > before.version
    assert painting.paint(scenes.load_scene("jams")[1], Tile("jams", *WEST)) != painting.empty_tile(1, "png")


def test_changes_add_up(load: Load) -> None:
    before = load()
    update(b"west,10,50")
    between = Layer.objects.get()
    update(b"south,45,50")
    assert stale(before) == {"west", "south"}
    assert stale(between) == {"south"}


def test_other_speeds_of_the_same_class_make_nothing_stale(load: Load) -> None:
    before = load()
    assert update(b"south,6,50").changed == 1
    assert stale(before) == set()
    assert Layer.objects.get().version > before.version


@pytest.mark.parametrize("saved", [{"style": {"widths": {"12": 8}}}, {"max_zoom": 12}])
def test_all_is_stale_where_the_layer_was_changed_meanwhile(load: Load, saved: dict[str, Any]) -> None:
    before = load()

    def meanwhile(layer: Layer, *given: Any, **named: Any) -> touching.Change:
        change = touching.here(layer, *given, **named)
        Layer.objects.filter(pk=layer.pk).update(**saved)
        return change

    update(b"west,10,50", mark=meanwhile)
    assert stale(before) == {"west", "south"}


def test_a_part_that_expired_stays_stale(load: Load) -> None:
    before = load()
    expiring.expire("jams", Part(min_zoom=12, max_zoom=12))
    update(b"north,10,50")
    assert stale(before) == {"west", "south"}


def test_what_is_saved_as_a_whole_needs_no_marks(load: Load) -> None:
    load()
    update(b"west,10,50")
    assert Marks.unpack(bytes(Layer.objects.get().marks)).count
    expiring.expire("jams")
    layer = Layer.objects.get()
    assert bytes(layer.marks) == b""
    assert view().version_for(*SOUTH) == layer.version


def test_marks_are_forgotten_when_tiles_from_before_are_stale_by_age(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(fresh_seconds=60)
    update(b"west,10,50")
    between = Layer.objects.get().version
    Layer.objects.update(version=between + 700_000_000)
    update(b"south,45,50")
    kept = Marks.unpack(bytes(Layer.objects.get().marks))
    assert kept.version_of(*SOUTH) > 0
    assert kept.version_of(*WEST) == 0


def test_a_web_process_has_much_found_out_apart_and_gets_the_same(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = load()
    shapes, before = (files.read(name) for name in (layer.geometry_name, layer.speeds_name))
    after, _ = speeds.align([speeds.Row("west", 10, 50)], ["north", "south", "west"])
    here = touching.aside(layer, shapes, speeds.read_speeds(before), after)
    monkeypatch.setattr(touching, "HERE_CHANGED", 0)
    there = touching.aside(layer, shapes, speeds.read_speeds(before), after)
    assert here.touched is not None
    assert there.touched is not None
    assert [there.touched.tiles(z) for z in range(15)] == [here.touched.tiles(z) for z in range(15)]


def test_all_is_stale_where_there_is_no_place_to_find_it_out(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load()

    def busy(*_: Any) -> None:
        raise BusyError("others")

    monkeypatch.setattr(apart, "mark_apart", busy)
    monkeypatch.setattr(touching, "HERE_CHANGED", 0)
    update(b"west,10,50", mark=touching.aside)
    assert stale(before) == {"west", "south"}


def test_the_first_speeds_of_a_layer_without_any_touch_what_they_colour(load: Load) -> None:
    before = load(data=builders.collection(builders.line("a", [[-0.3, 51.4], [-0.2, 51.4]])))
    storing.store_speeds("jams", {"a": (10, 50)})
    assert stale(before) == {"west"}


def test_another_geometry_makes_only_those_tiles_stale_that_it_touches(load: Load) -> None:
    lines = {
        "west": builders.line("west", [[-0.3, 51.4], [-0.2, 51.4]]),
        "south": builders.line("south", [[0.0, 51.6], [0.2, 51.4]]),
    }
    before = load(data=builders.collection(*lines.values()))
    load(data=builders.collection(lines["south"]))
    assert stale(before) == {"west"}
    assert Layer.objects.get().segments == 1


def test_all_is_stale_where_more_than_the_data_changed(load: Load) -> None:
    before = load()
    load(title="Other")
    assert stale(before) == {"west", "south"}
