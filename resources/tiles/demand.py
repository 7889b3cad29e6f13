"""What is asked of a layer: its requests, who answered them, and its most popular tiles. Counts nothing itself."""

from collections import defaultdict
from dataclasses import dataclass

from retry import hits, popularity

from . import asking, grid
from .tile import Tile

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0
SHOWN_TILES = 20
KNOWN_TILES = 1000


@dataclass(frozen=True, slots=True)
class Span:
    """Requests of a time, and the share of them that the hot cache answered; None when there were none."""

    title: str
    requests: int
    hot_percent: float | None
    waiting: int
    failed: int


@dataclass(frozen=True, slots=True)
class PopularTile:
    """A tile, where it is, and how often it is asked for, by requests' age."""

    tile: Tile
    address: str
    place: str
    requests: float


@dataclass(frozen=True, slots=True)
class Zoom:
    """How much of the demand for the most popular tiles is for those of one zoom level."""

    level: int
    tiles: int
    requests: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of one layer."""

    spans: list[Span]
    tiles: list[PopularTile]
    zooms: list[Zoom]


def demand(slug: str, now: float) -> Demand:
    """What is asked of the layer, as of now (Unix seconds). Raises StoreUnavailable."""
    titles = ("Ever", "Last hour", "Last day")
    counted = hits.of_group(asking.KIND, slug, now, (HOUR_SECONDS, DAY_SECONDS))
    found = popularity.most_popular(asking.KIND, KNOWN_TILES, f"{asking.KIND}:{slug}:")
    tiles = [tile for tile in map(_popular_tile, found) if tile is not None]
    spans = [_span(title, numbers) for title, numbers in zip(titles, counted, strict=True)]
    return Demand(spans, tiles[:SHOWN_TILES], _zooms(tiles))


def _span(title: str, numbers: dict[str, float]) -> Span:
    whole = sum(numbers.values())
    hot = 100 * numbers["hot"] / whole if whole else None
    return Span(title, round(whole), hot, round(numbers["waiting"]), round(numbers["busy"] + numbers["failed"]))


def _popular_tile(found: popularity.Popular) -> PopularTile | None:
    address = asking.address_of(found.content_key)
    tile = Tile.parse(address.removeprefix(asking.BEGINNING)) if address else None
    if address is None or tile is None:
        return None
    longitude, latitude = grid.tile_bounds(tile.z, tile.x, tile.y).middle()
    return PopularTile(tile, address, f"#{tile.z}/{latitude:.5f}/{longitude:.5f}", found.requests)


def _zooms(tiles: list[PopularTile]) -> list[Zoom]:
    by_level: dict[int, list[float]] = defaultdict(list)
    for each in tiles:
        by_level[each.tile.z].append(each.requests)
    return [Zoom(level, len(requests), sum(requests)) for level, requests in sorted(by_level.items())]
