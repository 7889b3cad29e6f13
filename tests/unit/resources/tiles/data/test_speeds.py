"""Speed files: rows, order of segments, and refused lines."""

import contextlib
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.tiles import styles
from resources.tiles.data import speeds
from resources.tiles.data.limits import LayerLimits
from resources.tiles.data.speeds import SpeedRow
from resources.tiles.errors import SpeedsError

HEADER = "segment_id,speed_kmh,free_flow_kmh"

BAD = {
    "an empty file": ("", "The file is empty"),
    "no rows": (HEADER + "\n", "no rows"),
    "semicolons": ("segment_id;speed_kmh;free_flow_kmh\na;1;2\n", "kmh', and commas separate values, not ';'."),
    "tabs": ("segment_id\tspeed_kmh\tfree_flow_kmh\na\t1\t2\n", "commas separate values, not '\\t'."),
    "what was found": ("id,speed\na,1\n", "not 'id,speed'."),
    "NaN": (f"{HEADER}\na,1,50\nb,NaN,50\n", "Line 3: speed_kmh is 'NaN'"),
    "a negative speed": (f"{HEADER}\na,-1,50\n", "Line 2: speed_kmh is '-1'"),
    "an exponent": (f"{HEADER}\na,1e3,50\n", "Line 2"),
    "digits of another script": (f"{HEADER}\na,١٢,50\n", "Line 2"),
    "a speed beyond all reason": (f"{HEADER}\na,99999,50\n", "Line 2"),
    "a free flow of nothing": (f"{HEADER}\na,10,0\n", "leave it empty"),
    "a duplicate": (f"{HEADER}\na,1,50\nb,1,50\na,1,50\n", "Line 4: segment “a” was in line 2 already"),
    "too few values": (f"{HEADER}\na,1\n", "Line 2: 2 values where 3 belong"),
    "no id": (f"{HEADER}\n,1,50\n", "Line 2: the segment_id"),
    "a quote left open": (f'{HEADER}\n"a,1,50\n', "not CSV"),
    "a time that is none": (f"{HEADER},measured_at\na,1,50,yesterday\n", "Line 2: measured_at is 'yesterday'"),
    "a time before the first year": (
        f"{HEADER},measured_at\na,1,50,0001-01-01T00:00:00+14:00\n",
        "Line 2: measured_at is '0001-01-01T00:00:00+14:00', outside",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_bad_speeds_are_refused_with_their_line(text: str, message: str) -> None:
    with pytest.raises(SpeedsError) as caught:
        speeds.read_csv_rows(text.encode())
    assert message in str(caught.value)


@pytest.mark.parametrize("read", [speeds.read_csv_rows, speeds.read_json_rows])
def test_speeds_that_are_too_big_or_no_text_are_refused(read: Callable[..., object]) -> None:
    with pytest.raises(SpeedsError, match="not UTF-8"):
        read(b"\xff\xfe")
    with pytest.raises(SpeedsError, match="too big"):
        read(b"12345", LayerLimits(max_bytes=4))


def test_rows_are_read_with_and_without_data_and_time() -> None:
    text = f"{HEADER},measured_at\na,12.5,50,2026-11-21T12:00:00Z\nb,,50,\n\nc,0,,2026-11-21T14:00:00+02:00\n"
    rows = speeds.read_csv_rows(text.encode())
    assert [(row.segment_id, row.speed_kmh, row.free_flow_kmh) for row in rows] == [
        ("a", 12.5, 50),
        ("b", None, 50),
        ("c", 0, None),
    ]
    assert rows[0].measured_at == rows[2].measured_at


def test_speeds_take_the_order_of_the_segments_and_unknown_ones_are_counted() -> None:
    rows = speeds.read_csv_rows(f"{HEADER}\nb,20,50\nx,1,2\na,10,50\ny,1,2\n".encode())
    found, report = speeds.align_speeds(rows, ["a", "b", "c"])
    assert found.speed_kmh[:2].tolist() == [10, 20]
    assert np.isnan(found.speed_kmh[2])
    assert found.known == 2
    assert (report.rows, report.unknown, report.unknown_examples) == (4, 2, ("x", "y"))


def test_speeds_of_the_future_are_left_out_and_counted() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    later = now + timedelta(seconds=1)
    rows = [SpeedRow("a", 1, 50, now), SpeedRow("b", 2, 50, later), SpeedRow("x", 3, 50, later), SpeedRow("c", 4, 50)]
    found, report = speeds.align_speeds(rows, ["a", "b", "c"], now)
    assert np.array_equal(found.speed_kmh, [1, math.nan, 4], equal_nan=True)
    assert (report.rows, report.unknown, report.refused, report.taken) == (4, 0, 2, 2)
    assert report.measured_at == now
    assert speeds.describe_report(report) == "4 rows, 2 of them refused as measured in the future (b, x)."


def test_written_speeds_are_read_back() -> None:
    found, _ = speeds.align_speeds([speeds.SpeedRow("a", 1.5, 2.5)], ["b", "a"])
    back = speeds.read_speeds(speeds.write_speeds(found))
    assert np.array_equal(back.speed_kmh, found.speed_kmh, equal_nan=True)
    assert np.array_equal(back.free_flow_kmh, found.free_flow_kmh, equal_nan=True)


@given(st.text())
def test_nothing_but_a_speeds_error_is_raised(text: str) -> None:
    with contextlib.suppress(SpeedsError):
        speeds.read_csv_rows(f"{HEADER}\n{text}".encode(errors="replace"))


def test_traffic_is_classified_by_its_share_of_free_flow() -> None:
    speed = np.array([50, 40, 39.9, 25, 24.9, 12.5, 12.4, 0, np.nan, 30], np.float32)
    free_flow = np.array([50] * 9 + [np.nan], np.float32)
    pairs = [each for each in (styles.GREEN, styles.YELLOW, styles.RED, styles.DARK_RED, styles.GREY) for _ in range(2)]
    assert speeds.classify_speeds(speed, free_flow).tolist() == pairs
