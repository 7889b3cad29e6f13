"""Main's snapshot of all layers, taken at most every half second.

An unknown layer costs nothing. When the database is away, only the age of the snapshot changes. Does not load
geometry: painters do.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.db import Error as DatabaseError

from ..caches import Snapshot
from . import grid, styles
from .errors import LayerError
from .models import Layer
from .staleness import Expiration, lowest_fresh_version
from .tile_address import metatile_side, read_metatile_sides
from .tile_marks import TileMarks
from .upstream import templates
from .upstream.templates import TileUrlTemplate

_log = logging.getLogger("tarry.layers")


@dataclass(frozen=True, slots=True)
class LayerView:
    """A layer at one version."""

    slug: str
    title: str
    kind: str
    version: int
    min_zoom: int
    max_zoom: int
    bounds: grid.Bounds
    fresh_seconds: float
    stale_seconds: float
    client_seconds: float | None
    attribution: str
    note: str
    style: dict[str, Any]
    padding: float
    """Distance beyond its bounds up to which the layer may be seen, in tiles."""

    data_version: int = 0
    expirations: tuple[Expiration, ...] = ()
    marks: TileMarks = field(default_factory=TileMarks)
    segments: int = 0
    speeds_known: int = 0
    measured_at: datetime | None = None
    metatiles: Mapping[int, int] = field(default_factory=dict)
    upstream: TileUrlTemplate | None = None
    """The address template of another server's tiles; None for painted layers."""

    upstream_in_flight: int | None = None
    """Requests in flight at the other server, if it is the operator's own."""

    most_fresh_seconds: float = 0
    base: bool = False
    order: int = 0

    @classmethod
    def of(cls, layer: Layer, marks: TileMarks | None = None) -> Self:
        """Makes the view of a row. Painters need no marks: they do not check the freshness of tiles."""
        made: dict[str, Any] = {
            "title": layer.title or layer.slug,
            "bounds": grid.Bounds.parse(layer.bounds),
            "padding": styles.style_padding(layer.kind, layer.style),
            "expirations": tuple(map(Expiration.parse, layer.expirations)),
            "marks": marks or TileMarks(),
            "metatiles": read_metatile_sides(layer.metatiles),
            "upstream": templates.parse_template(layer.upstream) if layer.kind == Layer.Kind.UPSTREAM else None,
        }
        same = {each.name: getattr(layer, each.name) for each in fields(cls) if each.name not in made}
        return cls(**same, **made)

    def has_zoom(self, zoom: int) -> bool:
        return self.min_zoom <= zoom <= self.max_zoom

    def has_scale(self, scale: int) -> bool:
        """Tells whether tiles of this scale exist: painted layers have all, other servers those they offer."""
        return scale == 1 or self.upstream is None or self.upstream.has_scale

    def version_for(self, z: int, x: int, y: int, *, side: int = 1) -> int:
        """Returns the lowest version of a tile, or of a metatile, that is not stale.

        Painted tiles have `version`, the newest.
        """
        lowest = lowest_fresh_version(self.data_version, self.expirations, (z, x, y), self.padding, side)
        return max(lowest, self.marks.version_of(z, x, y, side))

    def metatile_side(self, zoom: int, scale: int) -> int:
        """Returns the width of a metatile, in tiles."""
        return metatile_side(self.metatiles, zoom, scale)

    def metatile_sides(self) -> dict[int, int]:
        return {zoom: self.metatile_side(zoom, 1) for zoom in range(self.min_zoom, self.max_zoom + 1)}


def load_first_snapshot() -> None:
    """Takes the first snapshot before the first request, so that the database may go away from then on.

    Leaves it to the first request when the database is already away.
    """
    with suppress(DatabaseError):  # the log has it
        snapshot.get()


def joint_version(layers: Iterable[LayerView]) -> int:
    """Returns the version of a picture of several layers: it grows when the version of any layer grows."""
    return sum(layer.version for layer in layers)


def layers_snapshot() -> list[LayerView]:
    """Returns all enabled layers by slug. Raises DatabaseError only if they could never be read."""
    return [view for _, view in sorted(snapshot.get().items())]


def layer_snapshot(slug: str) -> LayerView | None:
    """Returns the enabled layer of that name or None. Raises DatabaseError as layers_snapshot() does."""
    return snapshot.get().get(slug)


def _read_layers() -> dict[str, LayerView]:
    layers = list(Layer.objects.filter(enabled=True).with_tiles().defer("marks"))
    marks = _marks.of(layers)
    views: dict[str, LayerView] = {}
    for layer in layers:
        try:
            views[layer.slug] = LayerView.of(layer, marks.get(layer.pk))
        except LayerError as error:  # one bad row must not take the others along
            _log.error("left out a layer", extra={"layer": layer.slug, "error": str(error)})
    return views


class _MarksCache:
    """Keeps the marks of layers, read again only for another version: they are larger than the rest of the row."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, TileMarks]] = {}

    def of(self, layers: list[Layer]) -> dict[int, TileMarks]:
        """Returns the marks, or newer ones, by the layers' primary keys. Layers that are stale as a whole have none."""
        versions = {layer.pk: layer.version for layer in layers if layer.version != layer.data_version}
        known = {pk: kept for pk, kept in self._known.items() if versions.get(pk) == kept[0]}
        missing = [pk for pk in versions if pk not in known]
        rows = Layer.objects.filter(pk__in=missing).values_list("pk", "marks") if missing else ()
        known.update((pk, (versions[pk], TileMarks.unpack(bytes(packed)))) for pk, packed in rows)
        self._known = known
        return {pk: marks for pk, (_, marks) in known.items()}


_marks = _MarksCache()

snapshot = Snapshot("the layers", _read_layers, lambda: settings.LAYER_SNAPSHOT_SECONDS)
