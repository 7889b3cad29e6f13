"""Speeds of segments, as CSV, as JSON lines (one object to a line, named like the columns) and as arrays."""

import csv
import io
import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from .. import styles
from ..errors import LayerError, SpeedsError
from . import geojson
from .limits import LayerLimits

SPEED_COLUMNS = ("segment_id", "speed_kmh", "free_flow_kmh")
MEASURED_AT_COLUMN = "measured_at"
MAX_KMH = 10_000.0
MAX_EXAMPLES = 5

_NUMBER_PATTERN = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """One line of the CSV. None is no data: the segment is painted grey."""

    segment_id: str
    speed_kmh: float | None
    free_flow_kmh: float | None
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SegmentSpeeds:
    """Speeds of all segments of a layer in the order of its features; NaN is no data."""

    speed_kmh: NDArray[np.float32]
    free_flow_kmh: NDArray[np.float32]

    @property
    def known(self) -> int:
        """Number of segments with both speeds."""
        return int(np.count_nonzero(~np.isnan(self.speed_kmh) & ~np.isnan(self.free_flow_kmh)))


@dataclass(frozen=True, slots=True)
class SpeedsReport:
    """The result for the rows of a file. Rows measured in the future are refused."""

    rows: int
    unknown: int
    unknown_examples: tuple[str, ...] = ()
    measured_at: datetime | None = None
    refused: int = 0
    refused_examples: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        return self.rows - self.unknown - self.refused


def read_csv_rows(data: bytes, limits: LayerLimits | None = None) -> list[SpeedRow]:
    """Reads the rows of a speeds CSV. Raises SpeedsError with the number of the first wrong line."""
    _check_speeds_size(data, limits)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpeedsError(f"The speeds are not CSV: byte {error.start} is not UTF-8.") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        has_time = _has_time(next(reader, []))
        return _collect_rows(
            (reader.line_num, _csv_row(cells, reader.line_num, has_time=has_time)) for cells in reader if cells
        )
    except csv.Error as error:
        raise SpeedsError(f"Line {reader.line_num}: not CSV ({error}).") from error


def _check_speeds_size(data: bytes, limits: LayerLimits | None) -> None:
    try:
        geojson.check_file_size(len(data), limits or LayerLimits())
    except LayerError as error:
        raise SpeedsError(str(error)) from error


def _collect_rows(numbered: Iterable[tuple[int, SpeedRow]]) -> list[SpeedRow]:
    """Returns the rows. Raises SpeedsError if a segment has two, or if there are none."""
    rows, lines_by_id = [], dict[str, int]()
    for line, row in numbered:
        first = lines_by_id.setdefault(row.segment_id, line)
        if first != line:
            raise SpeedsError(f"Line {line}: segment “{row.segment_id}” was in line {first} already.")
        rows.append(row)
    if not rows:
        raise SpeedsError("The speeds hold no rows.")
    return rows


def align_speeds(
    rows: Sequence[SpeedRow], ids: Sequence[str], until: datetime | None = None
) -> tuple[SegmentSpeeds, SpeedsReport]:
    """Returns speeds in the order of `ids`; segments without a row have no data.

    Counts rows of unknown ids, and rows measured after `until`, which it leaves out.
    """
    places = {identity: place for place, identity in enumerate(ids)}
    speed_kmh, free_flow_kmh = np.full((2, len(ids)), np.nan, np.float32)
    for row in drop_later_rows(rows, until):
        place = places.get(row.segment_id)
        if place is not None:
            speed_kmh[place], free_flow_kmh[place] = row.speed_kmh, row.free_flow_kmh  # None becomes NaN
    return SegmentSpeeds(speed_kmh, free_flow_kmh), build_report(rows, places, until)


def drop_later_rows(rows: Sequence[SpeedRow], until: datetime | None) -> list[SpeedRow]:
    return [row for row in rows if until is None or row.measured_at is None or row.measured_at <= until]


def build_report(rows: Sequence[SpeedRow], known: Container[str], until: datetime | None) -> SpeedsReport:
    taken = drop_later_rows(rows, until)
    refused = [row.segment_id for row in rows if until and row.measured_at and row.measured_at > until]
    unknown = [row.segment_id for row in taken if row.segment_id not in known]
    return SpeedsReport(
        rows=len(rows),
        unknown=len(unknown),
        unknown_examples=tuple(unknown[:MAX_EXAMPLES]),
        measured_at=max((row.measured_at for row in taken if row.measured_at), default=None),
        refused=len(refused),
        refused_examples=tuple(refused[:MAX_EXAMPLES]),
    )


def describe_report(report: SpeedsReport) -> str:
    rows = "1 row" if report.rows == 1 else f"{report.rows:,} rows"
    left_out = [
        _left_out(report.unknown, "for unknown segments", report.unknown_examples),
        _left_out(report.refused, "refused as measured in the future", report.refused_examples),
    ]
    return ", ".join(filter(None, (rows, *left_out))) + "."


def _left_out(number: int, why: str, examples: Sequence[str]) -> str:
    more = "…" if number > len(examples) else ""
    return f"{number:,} of them {why} ({', '.join(examples)}{more})" if number else ""


def speeds_to_rows(speeds: SegmentSpeeds, ids: Sequence[str]) -> list[SpeedRow]:
    """Returns the rows that make these speeds, without empty ones."""
    pairs = zip(ids, speeds.speed_kmh.tolist(), speeds.free_flow_kmh.tolist(), strict=True)
    return [
        SpeedRow(identity, None if math.isnan(speed) else speed, None if math.isnan(free_flow) else free_flow)
        for identity, speed, free_flow in pairs
        if not (math.isnan(speed) and math.isnan(free_flow))
    ]


def feature_speeds(features: Sequence[geojson.LayerFeature]) -> SegmentSpeeds:
    return SegmentSpeeds(
        np.array([feature.speed_kmh for feature in features], np.float32),  # None becomes NaN
        np.array([feature.free_flow_kmh for feature in features], np.float32),
    )


def write_speeds(speeds: SegmentSpeeds) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, speed_kmh=speeds.speed_kmh, free_flow_kmh=speeds.free_flow_kmh)
    return buffer.getvalue()


def read_speeds(data: bytes) -> SegmentSpeeds:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return SegmentSpeeds(arrays["speed_kmh"], arrays["free_flow_kmh"])


def _has_time(header: Sequence[str]) -> bool:
    names = tuple(name.strip() for name in header)
    if names not in (SPEED_COLUMNS, (*SPEED_COLUMNS, MEASURED_AT_COLUMN)):
        found = ",".join(header)
        separator = next((f", and commas separate values, not {mark!r}" for mark in ";\t|" if mark in found), "")
        raise SpeedsError(
            f"Line 1: the header is {','.join(SPEED_COLUMNS)}[,{MEASURED_AT_COLUMN}], not {found[:80]!r}{separator}."
        )
    return len(names) > len(SPEED_COLUMNS)


def _csv_row(cells: Sequence[str], line: int, *, has_time: bool) -> SpeedRow:
    if len(cells) != len(SPEED_COLUMNS) + has_time:
        raise SpeedsError(f"Line {line}: {len(cells)} values where {len(SPEED_COLUMNS) + has_time} belong.")
    speed, free_flow = _csv_kmh(cells[1], line, "speed_kmh"), _csv_kmh(cells[2], line, "free_flow_kmh")
    return _make_row(cells[0].strip(), speed, free_flow, _parse_moment(cells[3], line) if has_time else None, line)


def _make_row(
    segment_id: str, speed_kmh: float | None, free_flow_kmh: float | None, measured_at: datetime | None, line: int
) -> SpeedRow:
    if not segment_id or len(segment_id) > geojson.MAX_ID_LENGTH:
        raise SpeedsError(f"Line {line}: the segment_id is missing or too long.")
    if free_flow_kmh == 0:
        raise SpeedsError(f"Line {line}: free_flow_kmh is 0; leave it empty where it is not known.")
    return SpeedRow(segment_id, speed_kmh, free_flow_kmh, measured_at)


def _csv_kmh(cell: str, line: int, column: str) -> float | None:
    cell = cell.strip()
    if not cell:
        return None
    if not _NUMBER_PATTERN.fullmatch(cell) or float(cell) > MAX_KMH:
        raise _bad_speed(line, column, cell)
    return float(cell)


def _bad_speed(line: int, column: str, value: str) -> SpeedsError:
    return SpeedsError(f"Line {line}: {column} is {value[:40]!r}, not a number of km/h from 0 to {MAX_KMH:,.0f}.")


def _parse_moment(cell: str, line: int) -> datetime | None:
    """Parses a moment, in UTC if it has no zone; None for an empty cell."""
    if not cell.strip():
        return None
    try:
        moment = datetime.fromisoformat(cell.strip())
    except ValueError as error:
        raise SpeedsError(f"Line {line}: measured_at is {cell[:40]!r}, not a date and time in ISO 8601.") from error
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:
        raise SpeedsError(f"Line {line}: measured_at is {cell[:40]!r}, outside of the years 1 to 9999.") from error


MAX_LINE_BYTES = 10_000
_ROW_MEMBERS = frozenset((*SPEED_COLUMNS, MEASURED_AT_COLUMN))


def read_json_rows(data: bytes, limits: LayerLimits | None = None) -> list[SpeedRow]:
    """Reads the rows of a file of JSON lines. Raises SpeedsError with the number of the first wrong line."""
    _check_speeds_size(data, limits)
    return _collect_rows((number, _json_row(_json_members(line, number), number)) for number, line in _json_lines(data))


def _json_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if text := line.strip():
            if len(text) > MAX_LINE_BYTES:
                raise SpeedsError(f"Line {number}: longer than {MAX_LINE_BYTES:,} bytes. One object belongs on a line.")
            yield number, text


def _json_members(line: bytes, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line.decode(), parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except UnicodeDecodeError as error:
        raise SpeedsError(f"Line {number}: not UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise SpeedsError(f"Line {number}: not JSON ({str(error)[:100]}).") from error
    if not isinstance(found, dict):
        raise SpeedsError(f"Line {number}: not a JSON object.")
    if missing := [name for name in SPEED_COLUMNS if name not in found]:
        raise SpeedsError(f"Line {number}: {missing[0]} is missing; null means no data.")
    if unknown := found.keys() - _ROW_MEMBERS:
        raise SpeedsError(f"Line {number}: {min(unknown)[:40]!r} is no member of a row.")
    return found


def _refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands there twice")
    return members


def _refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no number")


def _json_row(members: dict[str, Any], number: int) -> SpeedRow:
    identity = members["segment_id"]
    if type(identity) not in (str, int):
        raise SpeedsError(f"Line {number}: segment_id is neither text nor a whole number.")
    if any("\ud800" <= character <= "\udfff" for character in str(identity)):  # halves of a surrogate pair
        raise SpeedsError(f"Line {number}: the segment_id holds what is not text.")
    moment = members.get(MEASURED_AT_COLUMN)
    if moment is not None and not isinstance(moment, str):
        raise SpeedsError(f"Line {number}: measured_at is not text.")
    return _make_row(
        str(identity),
        _json_kmh(members["speed_kmh"], number, "speed_kmh"),
        _json_kmh(members["free_flow_kmh"], number, "free_flow_kmh"),
        _parse_moment(moment or "", number),
        number,
    )


def _json_kmh(value: Any, number: int, name: str) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= MAX_KMH:
        raise _bad_speed(number, name, json.dumps(value))
    return float(value)


def classify_speeds(
    speed: NDArray[np.float32],
    free_flow: NDArray[np.float32],
    thresholds: tuple[float, float, float] = styles.TRAFFIC_THRESHOLDS,
) -> NDArray[np.uint8]:
    """Returns the class of each segment; NaN in either speed is no data. Does not judge implausible speeds."""
    green, yellow, red = thresholds
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.divide(speed, free_flow, dtype=np.float64)
    conditions = [np.isnan(ratio), ratio >= green, ratio >= yellow, ratio >= red]
    classes = [styles.GREY, styles.GREEN, styles.YELLOW, styles.RED]
    return np.select(conditions, classes, default=styles.DARK_RED).astype(np.uint8)
