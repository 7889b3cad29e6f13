"""The facts about a layer on its page, as terms and values. PURE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

from ..humanize import format_moment, spell_duration
from . import grid


@dataclass(frozen=True, slots=True)
class LayerFact:
    """A term, its value, and its meaning where that needs saying. `moment` is for machines."""

    term: str
    value: str
    meaning: str = ""
    moment: datetime | None = None


def data_facts(kind_label: str, features: int, positions: int) -> Iterator[LayerFact]:
    yield LayerFact("Kind", kind_label)
    yield LayerFact("Features", f"{features:,}", f"with {positions:,} positions")


def upstream_facts(kind_label: str, host: str) -> Iterator[LayerFact]:
    """Yields the host of the tiles. No more of the address: it may hold a key."""
    yield LayerFact("Kind", kind_label)
    yield LayerFact("Fetched from", host, "once for all clients, and stored")


def speed_facts(features: int, speeds_known: int, measured_at: datetime | None) -> Iterator[LayerFact]:
    """Yields how many speeds are known, and since when. Only lines have speeds."""
    if not speeds_known:
        yield LayerFact("Speeds", "None", "all segments are shown without data")
        return
    yield LayerFact("Speeds", f"{speeds_known:,} of {features:,}", "segments")
    if measured_at is not None:
        yield LayerFact("Measured", format_moment(measured_at, has_seconds=True), "latest speed", measured_at)


def version_facts(version: int, meaning: str = "data, speeds or settings") -> Iterator[LayerFact]:
    """Yields the version and its moment: versions are microseconds since 1970."""
    changed = datetime.fromtimestamp(version // 1_000_000, UTC)
    yield LayerFact("Changed", format_moment(changed, has_seconds=True), meaning, changed)
    yield LayerFact("Version", str(version))


def map_facts(
    min_zoom: int, max_zoom: int, bounds: grid.Bounds, metatile_sides: Mapping[int, int]
) -> Iterator[LayerFact]:
    """Yields the zooms and bounds of the tiles, and by zoom the width of a metatile, in tiles."""
    yield LayerFact("Zooms", str(min_zoom) if min_zoom == max_zoom else f"{min_zoom} to {max_zoom}")
    crossing = "across the antimeridian" if bounds.crosses_antimeridian else ""
    yield LayerFact("Bounds", ", ".join(map(format_degrees, bounds.as_list())), crossing or "west, south, east, north")
    if sides := describe_metatiles(metatile_sides):
        yield LayerFact("Metatiles", sides, "painted at once")


def freshness_facts(
    fresh_seconds: float, stale_seconds: float, client_seconds: float | None, hot_seconds: float
) -> Iterator[LayerFact]:
    yield LayerFact("Fresh for", spell_duration(fresh_seconds), "or until the layer changes")
    yield LayerFact("Then stale for", spell_duration(stale_seconds), "served at once while they are refreshed")
    if client_seconds is None:
        yield LayerFact("Changes show within", spell_duration(hot_seconds), "plus the time of painting")
    else:
        yield LayerFact("Kept by browsers for", spell_duration(client_seconds), "before a new request")


def upstream_freshness_facts(
    least_seconds: float, most_seconds: float, stale_seconds: float, client_seconds: float | None
) -> Iterator[LayerFact]:
    if least_seconds < most_seconds:
        span = f"{spell_duration(least_seconds)} to {spell_duration(most_seconds)}"
        yield LayerFact("Fresh for", span, "as their server says")
    else:
        yield LayerFact("Fresh for", spell_duration(least_seconds), "independent of their server")
    yield LayerFact("Then stale for", spell_duration(stale_seconds), "served at once while they are refreshed")
    if client_seconds is not None:
        yield LayerFact("Kept by browsers for", spell_duration(client_seconds), "before a new request")


def format_degrees(value: float) -> str:
    """Formats degrees to about a metre."""
    return f"{round(value, 5) + 0.0:.5f}".rstrip("0").rstrip(".") + "°"  # + 0.0: no negative zero


def describe_metatiles(metatile_sides: Mapping[int, int]) -> str:
    """Describes the width of the metatiles by zoom; empty if all tiles are painted singly."""
    return "; ".join(_metatile_runs(metatile_sides))


def _metatile_runs(metatile_sides: Mapping[int, int]) -> Iterator[str]:
    """Yields the runs of zooms with equally wide metatiles, without those of single tiles."""
    for side, run in groupby(sorted(metatile_sides.items()), key=lambda pair: pair[1]):
        zooms = [zoom for zoom, _ in run]
        if side > 1:
            span = f"zoom {zooms[0]}" if len(zooms) == 1 else f"zooms {zooms[0]} to {zooms[-1]}"
            yield f"{side} × {side} tiles at {span}"
