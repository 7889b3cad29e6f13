"""What is asked of a layer: its requests, who answered them, and its most popular tiles. Counts nothing itself."""

from collections import defaultdict
from dataclasses import dataclass

from retry import hits, popularity

from . import asking, grid
from .tile import Tile

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0
SHOWN_TILES = 20
SHOWN_REGIONS = 20
REGION_ZOOMS = 2
"""So many zooms further in than the one that shows all of a layer, a tile is a region."""

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
class Region:
    """How much of it is for one part of the map, and where that is: a link's fragment; none for wider views."""

    place: str
    title: str
    tiles: int
    requests: float
    percent: float


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of one layer."""

    spans: list[Span]
    tiles: list[PopularTile]
    zooms: list[Zoom]
    regions: list[Region]


def demand(slug: str, now: float, bounds: grid.Bounds = grid.WORLD) -> Demand:
    """What is asked of the layer, as of now (Unix seconds). Raises StoreUnavailable.

    Regions are tiles of the zoom at which the bounds are some tiles wide.
    """
    titles = ("Ever", "Last hour", "Last day")
    counted = hits.of_group(asking.KIND, slug, now, (HOUR_SECONDS, DAY_SECONDS))
    found = popularity.most_popular(asking.KIND, KNOWN_TILES, f"{asking.KIND}:{slug}:")
    tiles = [tile for tile in map(_popular_tile, found) if tile is not None]
    spans = [_span(title, numbers) for title, numbers in zip(titles, counted, strict=True)]
    return Demand(spans, tiles[:SHOWN_TILES], _zooms(tiles), _regions(tiles, bounds))


def _span(title: str, numbers: dict[str, float]) -> Span:
    whole = sum(numbers.values())
    hot = 100 * numbers["hot"] / whole if whole else None
    return Span(title, round(whole), hot, round(numbers["waiting"]), round(numbers["busy"] + numbers["failed"]))


def _popular_tile(found: popularity.Popular) -> PopularTile | None:
    address = asking.address_of(found.content_key)
    tile = Tile.parse(address.removeprefix(asking.BEGINNING)) if address else None
    if address is None or tile is None:
        return None
    return PopularTile(tile, address, _place(tile.z, tile.x, tile.y), found.requests)


def _place(z: int, x: int, y: int) -> str:
    longitude, latitude = grid.tile_bounds(z, x, y).middle()
    return f"#{z}/{latitude:.5f}/{longitude:.5f}"


def _zooms(tiles: list[PopularTile]) -> list[Zoom]:
    by_level: dict[int, list[float]] = defaultdict(list)
    for each in tiles:
        by_level[each.tile.z].append(each.requests)
    return [Zoom(level, len(requests), sum(requests)) for level, requests in sorted(by_level.items())]


def _regions(tiles: list[PopularTile], bounds: grid.Bounds) -> list[Region]:
    """The regions that are asked for most; views that show several of them are one of their own."""
    zoom = min(grid.zoom_around(bounds, 0, grid.MAX_ZOOM) + REGION_ZOOMS, grid.MAX_ZOOM)
    by_region: dict[tuple[int, int] | None, list[float]] = defaultdict(list)
    for each in tiles:
        z, x, y = each.tile.z, each.tile.x, each.tile.y
        by_region[(x >> z - zoom, y >> z - zoom) if z >= zoom else None].append(each.requests)
    whole = sum(each.requests for each in tiles)
    ranked = sorted(by_region.items(), key=lambda item: -sum(item[1]))[:SHOWN_REGIONS]
    return [_region(zoom, where, requests, whole) for where, requests in ranked]


def _region(zoom: int, where: tuple[int, int] | None, requests: list[float], whole: float) -> Region:
    percent = 100 * sum(requests) / whole if whole else 0.0
    if where is None:
        return Region("", f"wider views, up to zoom {zoom - 1}", len(requests), sum(requests), percent)
    west, south, east, north = grid.tile_bounds(zoom, *where).as_list()
    title = f"{south:.2f}° to {north:.2f}° north, {west:.2f}° to {east:.2f}° east"
    return Region(_place(zoom, *where), title, len(requests), sum(requests), percent)
