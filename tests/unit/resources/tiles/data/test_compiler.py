"""Speeds of a compiled layer: patches, rows of CSV and JSON, and refused lines."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from resources.tiles.data import compiler, speeds
from resources.tiles.data.speeds import SegmentSpeeds, SpeedRow
from resources.tiles.errors import SpeedsError
from tests.support import geojson as support_geojson

LINES = support_geojson.collection(*(support_geojson.line(name, [[0, 51], [1, 52]]) for name in ("a", "b", "c")))
GEOMETRY = compiler.compile_layer("lines", LINES).geometry
BEFORE = SegmentSpeeds(np.array([10, 20, np.nan], np.float32), np.array([50, 50, np.nan], np.float32))


def patch(data: bytes, form: compiler.SpeedsFormat = "csv") -> compiler.SpeedsPatch:
    return compiler.read_patch(GEOMETRY, data, form)


def csv(*rows: str) -> bytes:
    return "\n".join(["segment_id,speed_kmh,free_flow_kmh", *rows]).encode()


def lines(*rows: str) -> bytes:
    return "\n".join(rows).encode()


def row(**members: str) -> str:
    """A line of JSON with some members replaced, as they stand in the file."""
    named = {"segment_id": '"a"', "speed_kmh": "1", "free_flow_kmh": "50", **members}
    return "{" + ", ".join(f'"{name}": {value}' for name, value in named.items() if value) + "}"


def values(found: SegmentSpeeds) -> list[Any]:
    return list(np.nan_to_num(np.array([found.speed_kmh, found.free_flow_kmh]), nan=-1).tolist())


def test_a_patch_changes_its_segments_and_no_other() -> None:
    after = patch(csv("b,5,50", "nowhere,1,50")).over(BEFORE)
    assert values(after) == [[10, 5, -1], [50, 50, -1]]
    assert compiler.count_changed(BEFORE, after) == 1


def test_a_patch_over_nothing_leaves_the_others_without_data() -> None:
    after = patch(csv("b,5,50")).over(None)
    assert values(after) == [[-1, 5, -1], [-1, 50, -1]]
    assert compiler.count_changed(None, after) == 1
    assert compiler.count_changed(BEFORE, after) == 2


def test_an_empty_speed_takes_the_segments_data_away() -> None:
    after = patch(csv("a,,")).over(BEFORE)
    assert values(after) == [[-1, 20, -1], [-1, 50, -1]]
    assert compiler.count_changed(BEFORE, after) == 1


def test_json_lines_say_the_same_as_csv() -> None:
    data = lines(row(measured_at='"2026-11-21T10:00:00Z"'), "", row(segment_id="12", speed_kmh="null"), "")
    noon = datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert speeds.read_json_rows(data) == [SpeedRow("a", 1.0, 50.0, noon), SpeedRow("12", None, 50.0)]
    assert values(patch(lines(row()), "jsonlines").over(BEFORE)) == [[1, 20, -1], [50, 50, -1]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("[" * 9_000, "not JSON"),
        (row(speed_kmh=""), "speed_kmh is missing"),
        (row(speed="3"), "'speed' is no member"),
        (row(segment_id="true"), "segment_id"),
        (row(segment_id=f'"{"a" * 201}"'), "segment_id"),
        (row(segment_id=r'"\ud800"'), "not text"),
        (row(segment_id="1" * 5000), "not JSON"),
        (row(speed_kmh="-1"), "speed_kmh is '-1'"),
        (row(speed_kmh="NaN"), "NaN is no number"),
        (row(speed_kmh="true"), "not a number of km/h"),
        (row(free_flow_kmh="0"), "free_flow_kmh is 0"),
        (row(measured_at="5"), "measured_at"),
        (row(measured_at='"yesterday"'), "measured_at"),
        ('{"segment_id": "a", "segment_id": "b", "speed_kmh": 1, "free_flow_kmh": 2}', "twice"),
        (row() + " " * 10_000 + row(), "longer than"),
    ],
)
def test_a_line_that_is_wrong_is_named(line: str, message: str) -> None:
    with pytest.raises(SpeedsError, match=message) as caught:
        speeds.read_json_rows(lines(row(segment_id='"first"'), "", line))
    assert str(caught.value).startswith("Line 3: ")


def test_a_segment_has_one_line() -> None:
    with pytest.raises(SpeedsError, match="Line 2: segment “a” was in line 1 already"):
        speeds.read_json_rows(lines(row(), row()))


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xff\xfe{", b" "])
def test_a_file_without_rows_is_refused(data: bytes) -> None:
    for read in (speeds.read_json_rows, speeds.read_csv_rows):
        with pytest.raises(SpeedsError):
            read(data)
