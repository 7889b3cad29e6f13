"""Demand for a layer: its requests by the part that answered them, and its popular tiles. Counts nothing itself."""

from collections import defaultdict
from dataclasses import dataclass

from retry import popularity

from . import grid, tile_address
from .tile_address import Tile

HOUR_SECONDS, DAY_SECONDS = 3600.0, 86_400.0
MAX_SHOWN_TILES = 20
MAX_SHOWN_REGIONS = 20
REGION_ZOOMS = 2
"""A region is a tile this many zooms deeper than the one that shows all of the layer."""

MAX_RANKED_TILES = 1000


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """Requests of a period and the share that the hot cache answered; None when there were none."""

    title: str
    requests: int
    hot_percent: float | None
    waiting: int
    failed: int


@dataclass(frozen=True, slots=True)
class PopularTile:
    """A tile, its place, and its requests weighted by their age."""

    tile: Tile
    address: str
    place: str
    requests: float


@dataclass(frozen=True, slots=True)
class ZoomDemand:
    """The part of the demand for the most popular tiles that is for one zoom level."""

    level: int
    tiles: int
    requests: float


@dataclass(frozen=True, slots=True)
class RegionDemand:
    """The part of that demand that is for one region. `place` is a link's fragment, empty for wider views."""

    place: str
    title: str
    tiles: int
    requests: float
    percent: float


@dataclass(frozen=True, slots=True)
class LayerDemand:
    """The demand for one layer."""

    spans: list[RequestSpan]
    tiles: list[PopularTile]
    zooms: list[ZoomDemand]
    regions: list[RegionDemand]


def load_demand(slug: str, now: float, bounds: grid.Bounds = grid.WORLD) -> LayerDemand:
    """Loads the demand for the layer as of now (Unix seconds). Raises StoreUnavailable.

    Regions are tiles of the zoom at which the bounds are some tiles wide.
    """
    titles = ("Total", "Last hour", "Last day")
    counted = popularity.load_group_hits(tile_address.TILE_KIND, slug, now, (HOUR_SECONDS, DAY_SECONDS))
    tiles = [
        PopularTile(tile, tile.path, _map_fragment(tile.z, tile.x, tile.y), requests)
        for tile, requests in load_popular_tiles(slug, MAX_RANKED_TILES)
    ]
    spans = [_request_span(title, numbers) for title, numbers in zip(titles, counted, strict=True)]
    return LayerDemand(spans, tiles[:MAX_SHOWN_TILES], _demand_by_zoom(tiles), _demand_by_region(tiles, bounds))


def load_popular_tiles(slug: str, most: int, least_requests: float = 0.0) -> list[tuple[Tile, float]]:
    """Loads the most popular tiles of a layer, with their weighted requests. Raises StoreUnavailable."""
    kind = tile_address.TILE_KIND
    found = popularity.most_popular_contents(kind, most, f"{kind}:{slug}:", least=least_requests)
    return [(tile, each.requests) for each in found if (tile := Tile.of_key(each.content_key))]


def _request_span(title: str, numbers: dict[str, float]) -> RequestSpan:
    whole = sum(numbers.values())
    hot = 100 * numbers["hot"] / whole if whole else None
    return RequestSpan(title, round(whole), hot, round(numbers["waiting"]), round(numbers["busy"] + numbers["failed"]))


def _map_fragment(z: int, x: int, y: int) -> str:
    longitude, latitude = grid.tile_bounds(z, x, y).middle()
    return f"#{z}/{latitude:.5f}/{longitude:.5f}"


def _demand_by_zoom(tiles: list[PopularTile]) -> list[ZoomDemand]:
    by_level: dict[int, list[float]] = defaultdict(list)
    for each in tiles:
        by_level[each.tile.z].append(each.requests)
    return [ZoomDemand(level, len(requests), sum(requests)) for level, requests in sorted(by_level.items())]


def _demand_by_region(tiles: list[PopularTile], bounds: grid.Bounds) -> list[RegionDemand]:
    """Returns the regions with the most requests; views wider than a region form one region of their own."""
    zoom = min(grid.zoom_around(bounds, 0, grid.MAX_ZOOM) + REGION_ZOOMS, grid.MAX_ZOOM)
    by_region: dict[tuple[int, int] | None, list[float]] = defaultdict(list)
    for each in tiles:
        z, x, y = each.tile.z, each.tile.x, each.tile.y
        by_region[(x >> z - zoom, y >> z - zoom) if z >= zoom else None].append(each.requests)
    whole = sum(each.requests for each in tiles)
    ranked = sorted(by_region.items(), key=lambda item: -sum(item[1]))[:MAX_SHOWN_REGIONS]
    return [_region_demand(zoom, where, requests, whole) for where, requests in ranked]


def _region_demand(zoom: int, where: tuple[int, int] | None, requests: list[float], whole: float) -> RegionDemand:
    percent = 100 * sum(requests) / whole if whole else 0.0
    if where is None:
        return RegionDemand("", f"wider views, up to zoom {zoom - 1}", len(requests), sum(requests), percent)
    west, south, east, north = grid.tile_bounds(zoom, *where).as_list()
    title = f"{south:.2f}° to {north:.2f}° north, {west:.2f}° to {east:.2f}° east"
    return RegionDemand(_map_fragment(zoom, *where), title, len(requests), sum(requests), percent)
