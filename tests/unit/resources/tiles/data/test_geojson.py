"""GeoJSON files: accepted forms, ids, speeds and refusals."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.tiles.data import geojson
from resources.tiles.data.limits import LayerLimits
from resources.tiles.errors import LayerError
from tests.support.geojson import area, collection, line, square

GOOD = [[0, 51], [1, 52]]


def geometry(kind: str, coordinates: Any) -> dict[str, Any]:
    return {"type": "Feature", "properties": {}, "geometry": {"type": kind, "coordinates": coordinates}}


def together(*geometries: dict[str, Any]) -> bytes:
    joined = {"type": "GeometryCollection", "geometries": geometries}
    return collection({"type": "Feature", "properties": {}, "geometry": joined})


BAD: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "The file is empty"),
    "not JSON": (b"<kml/>", "not JSON"),
    "not UTF-8": (b'{"type": "\xff"}', "byte 10 is not UTF-8"),
    "nested deeply": (b"[" * 200_000, "nested too deeply"),
    "a number of too many digits": (b'{"type": %s}' % (b"1" * 5000), "thousands of digits"),
    "UTF-16": (collection(line(1, GOOD)).decode().encode("utf-16"), "save it as UTF-8"),
    "one object per line": (b'{"type": "Feature"}\n{"type": "Feature"}\n', "FeatureCollection: ogr2ogr"),
    "metres": (
        collection(line(1, GOOD)).replace(b"{", b'{"crs": {"properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}, ', 1),
        "“crs” is 'urn:ogc:def:crs:EPSG::3857'; a layer takes longitude and latitude (WGS 84). Convert it",
    ),
    "a list": (b"[1, 2]", "not GeoJSON"),
    "JSON of another kind": (b'{"rows": []}', "not GeoJSON"),
    "TopoJSON": (b'{"type": "Topology"}', "Convert it to GeoJSON"),
    "no features": (b'{"type": "FeatureCollection"}', "no list of “features”"),
    "an empty collection": (collection(), "FeatureCollection is empty"),
    "features without geometry only": (
        collection({"type": "Feature", "geometry": None, "properties": {}}),
        "no features with a geometry",
    ),
    "not a feature": (collection(line(1, GOOD), {"type": "Thing"}), "Feature 1: is not a GeoJSON Feature"),
    "a number for a feature": (b'{"type": "FeatureCollection", "features": [5]}', "Feature 0: is not"),
    "properties that are a list": (collection({**line(1, GOOD), "properties": [1]}), "properties are not an object"),
    "a geometry of no kind": (collection(geometry("Blob", GOOD)), "not a GeoJSON geometry"),
    "a point among lines": (collection(line("a", GOOD), geometry("Point", [0, 1])), "Feature 1: is a Point"),
    "a point in a collection of geometries": (
        together({"type": "LineString", "coordinates": GOOD}, {"type": "Point", "coordinates": [0, 1]}), "is a Point"
    ),
    "a collection of geometries within another": (together({"type": "GeometryCollection"}), "simple geometries"),
    "no coordinates": (collection(geometry("LineString", [])), "has no coordinates"),
    "coordinates that are text": (collection(geometry("LineString", "0,0 1,1")), "has no coordinates"),
    "one position": (collection(line("a1", [[0, 1]])), "Feature 0 (“a1”): one of its lines is too short"),
    "an empty line among lines": (collection(geometry("MultiLineString", [GOOD, []])), "too short"),
    "positions of one number": (collection(line(1, [[0], [1]])), "[0] is not a position"),
    "positions of truth values": (collection(line(1, [[True, False], [1, 2]])), "is not a position"),
    "NaN": (b'{"type": "LineString", "coordinates": [[NaN, 0], [1, 1]]}', "NaN is not a JSON number"),
    "infinity": (b'{"type": "LineString", "coordinates": [[-Infinity, 0], [1, 1]]}', "-Infinity is not a JSON"),
    "a number that overflows": (b'{"type": "LineString", "coordinates": [[1e999, 0], [1, 1]]}', "not on Earth"),
    "an integer that overflows": (
        b'{"type": "LineString", "coordinates": [[1%s, 0], [1, 1]]}' % (b"0" * 400),
        "too large",
    ),
    "latitude before longitude": (collection(line("x", [[35.6, 139.7], [36, 140]])), "longitude within ±180, then"),
    "metres instead of degrees": (collection(line("x", [[-14226.6, 6711542.5], [0, 0]])), "not on Earth"),
    "a ring that is open": (collection(geometry("Polygon", [[[0, 0], [1, 0], [1, 1], [0, 1]]])), "not closed"),
    "a polygon without rings": (collection(geometry("MultiPolygon", [[]])), "no rings"),
    "duplicate ids": (collection(line("a", GOOD), line(9, GOOD), line("a", GOOD)), "Features 0 and 2 have the same"),
    "an id like another's index": (collection(line("1", GOOD), line(None, GOOD)), "same id “1”"),
    "an id and a segment_id alike": (collection(line("7", GOOD), line(None, GOOD, segment_id=7)), "same id “7”"),
    "an id that is a list": (collection({**line(1, GOOD), "id": [1]}), "neither a string nor a number"),
    "an id that is too long": (collection(line("x" * 201, GOOD)), "not 1 to 200"),
    "a negative speed": (collection(line(1, GOOD, speed=-1, free_flow=50)), "property speed is -1"),
    "a speed that is text": (collection(line(1, GOOD, speed="50")), "property speed is '50'"),
    "no free flow at all": (collection(line(1, GOOD, speed=0, free_flow=0)), "property free_flow is 0"),
    "a line of too many positions": (collection(line("long", [[0, 1]] * 101)), "Feature 0 (“long”): a line has 101"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused_with_a_reason(data: bytes, message: str) -> None:
    with pytest.raises(LayerError) as caught:
        geojson.read_features(data, "lines", LayerLimits(max_bytes=1_000_000, max_positions_per_line=100))
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_file_that_is_too_big_is_refused_unread() -> None:
    with pytest.raises(LayerError, match="too big: 2,147 MB; at most 100 MB"):
        geojson.check_file_size(2**31, LayerLimits())


def test_lines_are_not_areas() -> None:
    with pytest.raises(LayerError, match="a layer of areas cannot show it"):
        geojson.read_features(collection(line(1, GOOD)), "areas")


def test_ids_come_from_the_feature_then_the_property_then_the_index() -> None:
    features = [line("a", GOOD, segment_id="b"), line(None, GOOD, segment_id=5), line(None, GOOD)]
    assert [each.id for each in geojson.read_features(collection(*features), "lines")] == ["a", "5", "2"]


def test_speeds_stand_in_properties() -> None:
    [first, second] = geojson.read_features(
        collection(line(1, GOOD, speed=12.5, free_flow=50), line(2, GOOD, speed=None)), "lines"
    )
    assert (first.speed_kmh, first.free_flow_kmh) == (12.5, 50)
    assert (second.speed_kmh, second.free_flow_kmh) == (None, None)


def test_rings_of_polygons_are_lines_too() -> None:
    data = collection(area("a", square(0, 0, 9, 9), square(1, 1, 2, 2)))
    [as_lines] = geojson.read_features(data, "lines")
    [as_area] = geojson.read_features(data, "areas")
    assert [part.opens_group for part in as_lines.parts] == [True, True]
    assert [part.opens_group for part in as_area.parts] == [True, False]


def test_altitudes_and_unlocated_features_are_accepted() -> None:
    features = [line("a", [[0, 51, 30], [1, 52]]), {"type": "Feature", "geometry": None, "properties": None}]
    [first, second] = geojson.read_features(collection(*features), "lines")
    assert first.parts[0].positions.tolist() == [[0, 51], [1, 52]]
    assert second.parts == []


@pytest.mark.parametrize("kind", ["Feature", "LineString"])
def test_a_file_may_be_a_single_feature_or_geometry(kind: str) -> None:
    single = line("a", GOOD) if kind == "Feature" else line("a", GOOD)["geometry"]
    assert len(geojson.read_features(json.dumps(single).encode(), "lines")) == 1


def test_a_byte_order_mark_does_no_harm() -> None:
    assert geojson.read_features(b"\xef\xbb\xbf" + collection(line(1, GOOD)), "lines")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "features", "geometry", "coordinates", "properties", "id", "speed"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "read",
    [
        partial(geojson.read_features, kind="lines"),
        partial(geojson.read_features, kind="areas"),
        geojson.read_point_features,
    ],
    ids=["lines", "areas", "points"],
)
@settings(max_examples=50)
@given(json_values, st.sampled_from(["FeatureCollection", "Feature", "LineString", "MultiPolygon", "MultiPoint"]))
def test_nothing_but_a_layer_error_is_raised(read: Callable[[bytes], object], value: Any, kind: str) -> None:
    for document in (
        value,
        {"type": kind, "features": value, "geometry": value, "coordinates": value},
        {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": value, "properties": {}}]},
        {"type": kind, "coordinates": [value, value]},
    ):
        try:
            read(json.dumps(document).encode())
        except LayerError:
            continue


@pytest.mark.parametrize("name", ["urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326", "urn:ogc:def:crs:EPSG::4326"])
def test_a_crs_of_longitude_and_latitude_is_taken(name: str) -> None:
    crs = json.dumps({"type": "name", "properties": {"name": name}}).encode()
    data = collection(line(1, GOOD)).replace(b"{", b'{"crs": %s, ' % crs, 1)
    assert len(geojson.read_features(data, "lines")) == 1
