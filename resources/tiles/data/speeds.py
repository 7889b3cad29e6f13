"""Speeds of segments: the CSV they come in, and the arrays they are kept in. PURE."""

import csv
import io
import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from ..errors import LayerError, SpeedsError
from . import geojson

COLUMNS = ("segment_id", "speed_kmh", "free_flow_kmh")
MEASURED_AT = "measured_at"
MAX_KMH = 10_000.0
EXAMPLES = 5
NO_ROWS = "The speeds hold no rows."

_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the CSV. None is no data: the segment is painted grey."""

    segment_id: str
    speed_kmh: float | None
    free_flow_kmh: float | None
    measured_at: datetime | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Speeds:
    """Speeds of all segments of a layer in the order of its features; NaN is no data."""

    speed_kmh: NDArray[np.float32]
    free_flow_kmh: NDArray[np.float32]

    @property
    def known(self) -> int:
        """How many segments have both speeds."""
        return int(np.count_nonzero(~np.isnan(self.speed_kmh) & ~np.isnan(self.free_flow_kmh)))


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a file's rows. Those that were measured in the future were refused."""

    rows: int
    unknown: int
    unknown_examples: tuple[str, ...] = ()
    measured_at: datetime | None = None
    refused: int = 0
    refused_examples: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """Rows that were for segments of the layer, and not refused."""
        return self.rows - self.unknown - self.refused


def read_rows(data: bytes, limits: geojson.Limits | None = None) -> list[Row]:
    """The rows of a speeds CSV. Raises SpeedsError with the line number of the first that is wrong."""
    check_size(data, limits)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpeedsError(f"The speeds are not CSV: byte {error.start} is not UTF-8.") from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[Row] = []
    lines = LinesById()
    try:
        has_time = _has_time(next(reader, []))
        for cells in reader:
            if cells:
                row = _row(cells, reader.line_num, has_time=has_time)
                lines.add(row.segment_id, reader.line_num)
                rows.append(row)
    except csv.Error as error:
        raise SpeedsError(f"Line {reader.line_num}: not CSV ({error}).") from error
    if not rows:
        raise SpeedsError(NO_ROWS)
    return rows


def check_size(data: bytes, limits: geojson.Limits | None) -> None:
    """Raises SpeedsError for a file that is too big or empty."""
    try:
        geojson.check_size(len(data), limits or geojson.Limits())
    except LayerError as error:
        raise SpeedsError(str(error)) from error


@dataclass(frozen=True, slots=True)
class LinesById:
    """The line of each segment that was read: a segment may have one only."""

    _lines: dict[str, int] = field(default_factory=dict)

    def add(self, segment_id: str, line: int) -> None:
        first = self._lines.setdefault(segment_id, line)
        if first != line:
            raise SpeedsError(f"Line {line}: segment “{segment_id}” was in line {first} already.")


def align(rows: Sequence[Row], ids: Sequence[str], until: datetime | None = None) -> tuple[Speeds, Report]:
    """Speeds in the order of `ids`; segments without a row have no data.

    Rows of unknown ids are counted, and so are rows that were measured after `until`: these are left out.
    """
    places = {identity: place for place, identity in enumerate(ids)}
    speeds = Speeds(np.full(len(ids), np.nan, np.float32), np.full(len(ids), np.nan, np.float32))
    for row in measured_by(rows, until):
        place = places.get(row.segment_id)
        if place is not None:
            speeds.speed_kmh[place] = math.nan if row.speed_kmh is None else row.speed_kmh
            speeds.free_flow_kmh[place] = math.nan if row.free_flow_kmh is None else row.free_flow_kmh
    return speeds, report_of(rows, places, until)


def measured_by(rows: Sequence[Row], until: datetime | None) -> list[Row]:
    """The rows that were not measured after that moment."""
    return [row for row in rows if until is None or row.measured_at is None or row.measured_at <= until]


def report_of(rows: Sequence[Row], known: Container[str], until: datetime | None) -> Report:
    """What becomes of the rows in a layer of these segments."""
    taken = measured_by(rows, until)
    refused = [row.segment_id for row in rows if until and row.measured_at and row.measured_at > until]
    unknown = [row.segment_id for row in taken if row.segment_id not in known]
    newest = max((row.measured_at for row in taken if row.measured_at), default=None)
    return Report(
        rows=len(rows),
        unknown=len(unknown),
        unknown_examples=tuple(unknown[:EXAMPLES]),
        measured_at=newest,
        refused=len(refused),
        refused_examples=tuple(refused[:EXAMPLES]),
    )


def describe(report: Report) -> str:
    """One line about what became of the rows."""
    rows = "1 row" if report.rows == 1 else f"{report.rows:,} rows"
    left_out = [
        _left_out(report.unknown, "for unknown segments", report.unknown_examples),
        _left_out(report.refused, "refused as measured in the future", report.refused_examples),
    ]
    return ", ".join(filter(None, (rows, *left_out))) + "."


def _left_out(number: int, why: str, examples: Sequence[str]) -> str:
    more = "…" if number > len(examples) else ""
    return f"{number:,} of them {why} ({', '.join(examples)}{more})" if number else ""


def rows_of(speeds: Speeds, ids: Sequence[str]) -> list[Row]:
    """The rows that make these speeds, without those that hold nothing."""
    pairs = zip(ids, speeds.speed_kmh.tolist(), speeds.free_flow_kmh.tolist(), strict=True)
    return [
        Row(identity, None if math.isnan(speed) else speed, None if math.isnan(free_flow) else free_flow)
        for identity, speed, free_flow in pairs
        if not (math.isnan(speed) and math.isnan(free_flow))
    ]


def speeds_of(features: Sequence[geojson.Feature]) -> Speeds:
    """The speeds that stand in the features' own properties."""
    return Speeds(
        np.array([math.nan if f.speed_kmh is None else f.speed_kmh for f in features], np.float32),
        np.array([math.nan if f.free_flow_kmh is None else f.free_flow_kmh for f in features], np.float32),
    )


def write_speeds(speeds: Speeds) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, speed_kmh=speeds.speed_kmh, free_flow_kmh=speeds.free_flow_kmh)
    return buffer.getvalue()


def read_speeds(data: bytes) -> Speeds:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return Speeds(arrays["speed_kmh"], arrays["free_flow_kmh"])


def _has_time(header: Sequence[str]) -> bool:
    names = tuple(name.strip() for name in header)
    if names not in (COLUMNS, (*COLUMNS, MEASURED_AT)):
        found = ",".join(header)
        separator = next((f", and commas separate values, not {mark!r}" for mark in ";\t|" if mark in found), "")
        raise SpeedsError(f"Line 1: the header is {','.join(COLUMNS)}[,{MEASURED_AT}], not {found[:80]!r}{separator}.")
    return len(names) > len(COLUMNS)


def _row(cells: Sequence[str], line: int, *, has_time: bool) -> Row:
    if len(cells) != len(COLUMNS) + has_time:
        raise SpeedsError(f"Line {line}: {len(cells)} values where {len(COLUMNS) + has_time} belong.")
    speed, free_flow = _kmh(cells[1], line, "speed_kmh"), _kmh(cells[2], line, "free_flow_kmh")
    return row_of(cells[0].strip(), speed, free_flow, time_of(cells[3], line) if has_time else None, line)


def row_of(
    segment_id: str, speed_kmh: float | None, free_flow_kmh: float | None, measured_at: datetime | None, line: int
) -> Row:
    """A row whose values belong together. Raises SpeedsError."""
    if not segment_id or len(segment_id) > geojson.MAX_ID_LENGTH:
        raise SpeedsError(f"Line {line}: the segment_id is missing or too long.")
    if free_flow_kmh == 0:
        raise SpeedsError(f"Line {line}: free_flow_kmh is 0; leave it empty where it is not known.")
    return Row(segment_id, speed_kmh, free_flow_kmh, measured_at)


def _kmh(cell: str, line: int, column: str) -> float | None:
    cell = cell.strip()
    if not cell:
        return None
    if not _NUMBER.fullmatch(cell) or float(cell) > MAX_KMH:
        raise SpeedsError(no_speed(line, column, cell))
    return float(cell)


def no_speed(line: int, column: str, value: str) -> str:
    return f"Line {line}: {column} is {value[:40]!r}, not a number of km/h from 0 to {MAX_KMH:,.0f}."


def time_of(cell: str, line: int) -> datetime | None:
    """The moment, taken for UTC where no zone is given; None for an empty cell. Raises SpeedsError."""
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
