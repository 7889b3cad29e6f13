import numpy as np
import pytest

from resources.tiles.errors import LayerError
from resources.tiles.reading import geojson, geometry
from resources.tiles.reading.geojson import Kind

from ..builders import area, collection, line, square


def compiled(kind: Kind, *features: object) -> geometry.Geometry:
    return geometry.compile_geometry(geojson.read_features(collection(*features), kind))  # type: ignore[arg-type]


def test_a_line_across_the_antimeridian_runs_on_past_the_maps_edge() -> None:
    found = compiled("lines", line(1, [[179, 0], [-179, 0]]), line(2, [[-179, 0], [179, 0]]))
    spans = found.coordinates[:, 0].reshape(2, 2)
    assert spans[0] == pytest.approx([359 / 360, 361 / 360])
    assert spans[1] == pytest.approx([361 / 360, 359 / 360])
    assert (found.bounds.west, found.bounds.east) == pytest.approx((179, -179))


def test_a_ring_round_the_pole_is_closed_beyond_the_maps_edge() -> None:
    antarctica = [[-170, -70], [-90, -75], [0, -70], [90, -72], [170, -70], [-170, -70]]
    for ring in (antarctica, antarctica[::-1]):
        found = compiled("areas", area("antarctica", ring))
        assert found.coordinates[:, 0].max() - found.coordinates[:, 0].min() == pytest.approx(1)
        assert found.bounds.south == pytest.approx(-85.0511287798066)


def test_holes_follow_their_outer_ring_round_the_globe() -> None:
    found = compiled("areas", area("a", square(170, 0, 180, 10), square(171, 1, 172, 2)), area("b", square(0, 0, 1, 1)))
    assert found.groups.tolist() == [0, 2, 3]
    across = compiled(
        "areas", area("a", [[170, 0], [-170, 0], [-170, 10], [170, 10], [170, 0]], square(-175, 1, -172, 2))
    )
    assert across.coordinates[5:, 0].min() > 1


def test_an_orbit_is_cut_into_pieces_of_a_turn_that_follow_each_other() -> None:
    track = [[(23 * minute + 180) % 360 - 180, 50 * ((minute % 93) / 46.5 - 1)] for minute in range(2000)]
    found = compiled("lines", line("before", [[0, 0], [1, 1]]), line("orbit", track), line("after", [[0, 0], [1, 1]]))
    assert found.coordinates[:, 0].max() < 2.2
    assert found.features[0] == 0
    assert set(found.features[1:-1].tolist()) == {1}
    assert found.features[-1] == 2
    firsts, lasts = found.coordinates[found.offsets[1:-2]], found.coordinates[found.offsets[2:-1] - 1]
    steps = firsts[1:] - lasts[:-1]
    assert np.abs(steps[:, 0] - np.round(steps[:, 0])).max() < 1e-9
    assert np.abs(steps[:, 1]).max() < 1e-9


def test_an_area_that_goes_round_the_globe_many_times_is_refused() -> None:
    spiral = [[(100 * step + 180) % 360 - 180, step / 10] for step in range(40)]
    with pytest.raises(LayerError, match="round the globe 11 times"):
        compiled("areas", area("spiral", [*spiral, spiral[0]]))


def test_written_geometry_is_read_back_and_equal_geometries_are_equal_files() -> None:
    found = compiled("lines", line("a", [[0, 51], [1, 52]]), line("b “", [[0, 51], [1, 52], [2, 53]]))
    data = geometry.write_geometry(found, ["a", "b “"])
    back = geometry.read_geometry(data)
    for name in ("coordinates", "offsets", "rings", "groups", "features"):
        assert np.array_equal(getattr(back, name), getattr(found, name)), name
    assert back.bounds == found.bounds
    assert geometry.read_ids(data) == ["a", "b “"]
    assert geometry.write_geometry(back, ["a", "b “"]) == data


def test_features_without_geometry_keep_their_place() -> None:
    nowhere: dict[str, object] = {"type": "Feature", "geometry": None, "properties": {}}
    found = compiled("lines", nowhere, line("b", [[0, 51], [1, 52]]))
    assert found.features.tolist() == [1]
