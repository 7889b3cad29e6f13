"""Speeds as JSON lines: one object to a line, its members named as the CSV's columns. PURE."""

import json
from collections.abc import Iterator
from typing import Any, Never

from ..errors import SpeedsError
from . import geojson, speeds
from .speeds import COLUMNS, MEASURED_AT, Row

MAX_LINE_BYTES = 10_000
_MEMBERS = frozenset((*COLUMNS, MEASURED_AT))


def read_rows(data: bytes, limits: geojson.Limits | None = None) -> list[Row]:
    """The rows of a file of JSON lines. Raises SpeedsError with the number of the first line that is wrong."""
    speeds.check_size(data, limits)
    rows: list[Row] = []
    lines = speeds.LinesById()
    for number, line in _lines(data):
        row = _row(_members(line, number), number)
        lines.add(row.segment_id, number)
        rows.append(row)
    if not rows:
        raise SpeedsError(speeds.NO_ROWS)
    return rows


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if text := line.strip():
            if len(text) > MAX_LINE_BYTES:
                raise SpeedsError(f"Line {number}: longer than {MAX_LINE_BYTES:,} bytes. One object belongs on a line.")
            yield number, text


def _members(line: bytes, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line.decode(), parse_constant=_no_number, object_pairs_hook=_once)
    except UnicodeDecodeError as error:
        raise SpeedsError(f"Line {number}: not UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise SpeedsError(f"Line {number}: not JSON ({str(error)[:100]}).") from error
    if not isinstance(found, dict):
        raise SpeedsError(f"Line {number}: not a JSON object.")
    if missing := [name for name in COLUMNS if name not in found]:
        raise SpeedsError(f"Line {number}: {missing[0]} is missing; null means no data.")
    if unknown := found.keys() - _MEMBERS:
        raise SpeedsError(f"Line {number}: {min(unknown)[:40]!r} is no member of a row.")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands there twice")
    return members


def _no_number(name: str) -> Never:
    raise ValueError(f"{name} is no number")


def _row(members: dict[str, Any], number: int) -> Row:
    identity = members["segment_id"]
    if type(identity) not in (str, int):
        raise SpeedsError(f"Line {number}: segment_id is neither text nor a whole number.")
    if not _is_text(str(identity)):
        raise SpeedsError(f"Line {number}: the segment_id holds what is not text.")
    moment = members.get(MEASURED_AT)
    if moment is not None and not isinstance(moment, str):
        raise SpeedsError(f"Line {number}: measured_at is not text.")
    return speeds.row_of(
        str(identity),
        _kmh(members["speed_kmh"], number, "speed_kmh"),
        _kmh(members["free_flow_kmh"], number, "free_flow_kmh"),
        speeds.time_of(moment or "", number),
        number,
    )


def _is_text(value: str) -> bool:
    """JSON can name halves of a surrogate pair, which no text holds."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _kmh(value: Any, number: int, name: str) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= speeds.MAX_KMH:
        raise SpeedsError(speeds.no_speed(number, name, json.dumps(value)))
    return float(value)
