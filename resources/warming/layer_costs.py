"""What the zooms of one layer cost, for the admin: from the grid, recorded durations, the cache, and the traffic."""

from collections import defaultdict

from resources.tiles import asking
from resources.tiles.layers import LayerView
from retry import hits, periods, popularity

from . import coverage, tiles
from .advice import ZoomCost
from .costing import costs
from .coverage import Coverage
from .estimating import Estimate
from .tiles import Variant

KNOWN_TILES = 5000


def zoom_costs(layer: LayerView) -> list[ZoomCost]:
    """By zoom, of tiles of one format. Raises StoreUnavailable."""
    zooms = range(layer.min_zoom, layer.max_zoom + 1)
    covered = Coverage(coverage.of_bounds(layer.bounds), zooms, layer.padding)
    known = costs(layer, zooms, Variant())
    shares = _shares(layer.slug)
    answers = hits.ever(f"{asking.KIND}{periods.PARTS}", [f"{layer.slug}/{zoom}" for zoom in zooms])
    found = []
    for zoom, counted in zip(zooms, answers, strict=True):
        works = covered.count(zoom, tiles.side_of(layer, zoom, Variant()))
        estimate = Estimate.of(zoom, covered.count(zoom), works, known)
        requests = sum(counted.values())
        percents = [100 * counted[name] / requests if requests else None for name in ("hot", "waiting")]
        found.append(ZoomCost(zoom, estimate, shares.get(zoom, 0.0) if shares else None, round(requests), *percents))
    return found


def _shares(slug: str) -> dict[int, float]:
    """By zoom, the share of the requests for the most popular tiles, in percent; empty when nothing is known."""
    requests: dict[int, float] = defaultdict(float)
    for each in popularity.most_popular(asking.KIND, KNOWN_TILES, f"{asking.KIND}:{slug}:"):
        if tile := tiles.tile_of(each.content_key):
            requests[tile.z] += each.requests
    whole = sum(requests.values())
    return {zoom: 100 * number / whole for zoom, number in requests.items()} if whole else {}
