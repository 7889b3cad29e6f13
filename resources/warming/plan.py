"""What a run is asked for, and the pieces that come of it, in their order."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import shapely
from shapely.geometry.base import BaseGeometry

from resources.tiles import grid, layers
from resources.tiles.errors import LayerError, UnknownLayerError
from resources.tiles.layers import LayerView

from . import coverage, ordering, tiles
from .costing import costs
from .coverage import Coverage
from .estimating import Estimate
from .pieces import Piece
from .tiles import Variant

USUAL_POPULAR = 1000
"""So many of the most popular contents are meant where nothing is said."""

FIRST_POPULAR = 20_000
"""Of an area so many popular tiles come first, by their benefit; all others follow by their zoom."""


@dataclass(frozen=True)
class Plan:
    """Layers (none: all), the part of them, how many of the popular (None: all, popular or not), other kinds."""

    slugs: tuple[str, ...] = ()
    zooms: tuple[int, int] = (0, grid.MAX_ZOOM)
    area: BaseGeometry | None = None
    popular: int | None = None
    others: bool = False
    tiles: bool = True
    variants: tuple[Variant, ...] = (Variant(),)
    horizon_seconds: float = ordering.HORIZON_SECONDS

    def pieces(self) -> Iterator[Piece]:
        """The popular by their benefit, then the whole area, or the popular that are worth nothing now.

        Raises StoreUnavailable.
        """
        found = tiles.popular(self.popular or FIRST_POPULAR, self.coverages) if self.tiles else []
        if self.others:
            found += ordering.popular_others(self.popular or USUAL_POPULAR)
        first = ordering.by_benefit(found, self.horizon_seconds)
        yield from first
        if self.has_area:
            for slug, each in self.coverages.items():
                yield from tiles.covered(slug, each, self.variants)
            return
        had = {piece.work.key for piece in first}
        yield from (piece for piece in found if piece.work.key not in had)

    @property
    def has_area(self) -> bool:
        """Whether all of an area is meant, popular or not."""
        return self.popular is None and self.tiles

    def counted(self) -> tuple[int, Iterator[Piece]]:
        """How many pieces there are, and the pieces. Of an area, the popular ones come twice.

        When its turn comes, what is left of a layer that is gone by then is passed over.
        """
        if self.has_area:
            return sum(estimate.works for _, _, estimate in self.estimates()), filter(tiles.is_there, self.pieces())
        found = list(self.pieces())
        return len(found), filter(tiles.is_there, found)

    def estimates(self) -> Iterator[tuple[LayerView, int, Estimate]]:
        """What the area takes by layer and zoom, fresh or not. Raises StoreUnavailable."""
        for layer in self.layers:
            covered = self.coverages[layer.slug]
            for variant in self.variants:
                known = costs(layer, covered.zooms, variant)
                for zoom in covered.zooms:
                    works = covered.count(zoom, tiles.side_of(layer, zoom, variant))
                    yield layer, zoom, Estimate.of(zoom, covered.count(zoom), works, known)

    @cached_property
    def layers(self) -> list[LayerView]:
        """Those that are meant. Raises UnknownLayerError."""
        if not self.slugs:
            return layers.layers_snapshot()
        found = {slug: layers.layer_snapshot(slug) for slug in self.slugs}
        if missing := [slug for slug, layer in found.items() if layer is None]:
            raise UnknownLayerError(f"There is no layer {', '.join(missing)} that is switched on and has data.")
        return [layer for layer in found.values() if layer]

    @cached_property
    def coverages(self) -> dict[str, Coverage]:
        """By layer. Raises LayerError where no layer has any of the zooms."""
        found = {layer.slug: self._coverage(layer) for layer in self.layers}
        if found and not any(each.zooms for each in found.values()):
            raise LayerError(f"No layer that is meant has the zooms {self.zooms[0]} to {self.zooms[1]}.")
        return found

    def _coverage(self, layer: LayerView) -> Coverage:
        bounds = coverage.of_bounds(layer.bounds)
        area = bounds if self.area is None else shapely.intersection(bounds, self.area)
        zooms = range(max(layer.min_zoom, self.zooms[0]), min(layer.max_zoom, self.zooms[1]) + 1)
        return Coverage(area, zooms, layer.padding)
