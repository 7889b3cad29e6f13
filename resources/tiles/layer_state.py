"""What a layer's page tells of the layer's state, as terms and what stands for them. PURE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from .tiles import grid

UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


@dataclass(frozen=True, slots=True)
class Fact:
    """A term, what is so, and where it needs that, what it means. `moment` is for machines."""

    term: str
    value: str
    meaning: str = ""
    moment: datetime | None = None


def data_facts(kind_label: str, features: int, positions: int) -> Iterator[Fact]:
    """What the layer consists of."""
    yield Fact("Kind", kind_label)
    yield Fact("Features", f"{features:,}", f"with {positions:,} positions")


def upstream_facts(kind_label: str, host: str) -> Iterator[Fact]:
    """Whose tiles they are. Nothing more of the address: it may hold a key."""
    yield Fact("Kind", kind_label)
    yield Fact("Fetched from", host, "once for everybody, and kept")


def speed_facts(features: int, speeds_known: int, measured_at: datetime | None) -> Iterator[Fact]:
    """What is known of the speeds. Only lines have some."""
    if not speeds_known:
        yield Fact("Speeds", "None", "every segment is painted as without data")
        return
    yield Fact("Speeds", f"{speeds_known:,} of {features:,}", "segments have one")
    if measured_at is not None:
        yield Fact("Measured", moment(measured_at), "the latest of the speeds", measured_at)


def version_facts(version: int, meaning: str = "data, speeds or settings") -> Iterator[Fact]:
    """Versions are microseconds since 1970."""
    changed = datetime.fromtimestamp(version // 1_000_000, UTC)
    yield Fact("Changed", moment(changed), meaning, changed)
    yield Fact("Version", str(version))


def map_facts(min_zoom: int, max_zoom: int, bounds: grid.Bounds, block_sides: Mapping[int, int]) -> Iterator[Fact]:
    """Where there are tiles, and how many tiles wide the blocks are, by zoom, that are painted at once."""
    yield Fact("Zooms", str(min_zoom) if min_zoom == max_zoom else f"{min_zoom} to {max_zoom}")
    crossing = "across the antimeridian" if bounds.crosses_antimeridian else ""
    yield Fact("Bounds", ", ".join(map(degrees, bounds.as_list())), crossing or "west, south, east, north")
    blocks = describe_blocks(block_sides)
    if blocks:
        yield Fact("Painted in blocks", blocks, "one preparation each")


def freshness_facts(
    fresh_seconds: float, stale_seconds: float, client_seconds: float | None, hot_seconds: float
) -> Iterator[Fact]:
    """How old tiles may be."""
    yield Fact("Fresh for", duration(fresh_seconds), "unless the layer changes before")
    yield Fact("Then stale for", duration(stale_seconds), "served at once while it is painted anew")
    if client_seconds is None:
        yield Fact("Changes show within", duration(hot_seconds), "and the time of painting")
    else:
        yield Fact("Kept by browsers for", duration(client_seconds), "before they ask again")


def upstream_freshness_facts(
    least_seconds: float, most_seconds: float, stale_seconds: float, client_seconds: float | None
) -> Iterator[Fact]:
    """How old tiles of another server may be."""
    if least_seconds < most_seconds:
        yield Fact("Fresh for", f"{duration(least_seconds)} to {duration(most_seconds)}", "as their server says")
    else:
        yield Fact("Fresh for", duration(least_seconds), "whatever their server says")
    yield Fact("Then stale for", duration(stale_seconds), "served at once while it is fetched anew")
    if client_seconds is not None:
        yield Fact("Kept by browsers for", duration(client_seconds), "before they ask again")


def duration(seconds: float) -> str:
    """At most two units: `1 day`, `1 hour 30 minutes`, `2.5 seconds`."""
    if seconds < 60:
        return _counted(f"{seconds:g}", "second")
    parts = []
    left = round(seconds)
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(_counted(f"{count:,}", unit))
    return " ".join(parts[:2])


def moment(when: datetime) -> str:
    return f"{when.astimezone(UTC):%-d %B %Y, %H:%M:%S} UTC"


def degrees(value: float) -> str:
    """To a metre or so."""
    return f"{round(value, 5) + 0.0:.5f}".rstrip("0").rstrip(".") + "°"  # + 0.0: no zero has a sign


def _counted(count: str, unit: str) -> str:
    return f"{count} {unit}" if count == "1" else f"{count} {unit}s"


def describe_blocks(block_sides: Mapping[int, int]) -> str:
    """How wide the blocks are, by zoom; empty for none but single tiles."""
    return "; ".join(_blocks(block_sides))


def _blocks(block_sides: Mapping[int, int]) -> Iterator[str]:
    """Runs of zooms whose blocks are equally wide; single tiles are not mentioned."""
    for side, run in groupby(sorted(block_sides.items()), key=lambda pair: pair[1]):
        zooms = [zoom for zoom, _ in run]
        if side > 1:
            span = f"zoom {zooms[0]}" if len(zooms) == 1 else f"zooms {zooms[0]} to {zooms[-1]}"
            yield f"{side} × {side} tiles at {span}"
