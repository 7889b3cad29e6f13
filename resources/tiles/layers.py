"""What main knows of the layers: a snapshot of all of them, taken at most every half second.

An unknown layer costs nothing, and a database that is away changes nothing but the age of the
snapshot. Does not load geometry: painters do.
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from django.db import Error as DatabaseError

from resources.models import Layer
from resources.snapshots import Snapshot
from resources.upstream import templates
from resources.upstream.templates import Template

from . import conf, grid
from .blocks import read_sides, side_at
from .errors import LayerError
from .expirations import Expiration, lowest_fresh
from .marks import Marks
from .styling import style

_log = logging.getLogger("tarry.layers")


@dataclass(frozen=True, slots=True)
class LayerView:
    """A layer as it stood at one version."""

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
    """How far beyond its bounds the layer may be seen, in tiles."""

    data_version: int = 0
    expirations: tuple[Expiration, ...] = ()
    marks: Marks = field(default_factory=Marks)
    segments: int = 0
    speeds_known: int = 0
    measured_at: datetime | None = None
    metatiles: Mapping[int, int] = field(default_factory=dict)
    upstream: Template | None = None
    """Where the tiles come from, if they are another server's."""

    most_fresh_seconds: float = 0
    base: bool = False
    order: int = 0

    @classmethod
    def of(cls, layer: Layer, marks: Marks | None = None) -> Self:
        """The layer of a row. Painters need no marks: they look at no tile's freshness."""
        return cls(
            slug=layer.slug,
            title=layer.title or layer.slug,
            kind=layer.kind,
            version=layer.version,
            min_zoom=layer.min_zoom,
            max_zoom=layer.max_zoom,
            bounds=grid.Bounds.parse(layer.bounds),
            fresh_seconds=layer.fresh_seconds,
            stale_seconds=layer.stale_seconds,
            client_seconds=layer.client_seconds,
            attribution=layer.attribution,
            note=layer.note,
            style=layer.style,
            padding=style.padding(layer.kind, layer.style),
            data_version=layer.data_version,
            expirations=_expirations(layer.expirations),
            marks=marks or Marks(),
            segments=layer.segments,
            speeds_known=layer.speeds_known,
            measured_at=layer.measured_at,
            metatiles=read_sides(layer.metatiles),
            upstream=templates.parse(layer.upstream) if layer.kind == Layer.Kind.UPSTREAM else None,
            most_fresh_seconds=layer.most_fresh_seconds,
            base=layer.base,
            order=layer.order,
        )

    def has_zoom(self, zoom: int) -> bool:
        return self.min_zoom <= zoom <= self.max_zoom

    def has_scale(self, scale: int) -> bool:
        """Whether there are tiles of so many times the pixels: painted ones always, others where they are offered."""
        return scale == 1 or self.upstream is None or self.upstream.has_scale

    def version_for(self, z: int, x: int, y: int, *, side: int = 1) -> int:
        """The lowest version of a tile, or of a block of tiles, that is not stale.

        Painted tiles have `version`, the newest.
        """
        lowest = lowest_fresh(self.data_version, self.expirations, (z, x, y), self.padding, side)
        return max(lowest, self.marks.version_of(z, x, y, side))

    def block_side(self, zoom: int, scale: int) -> int:
        """How many tiles wide the blocks are that are painted at once."""
        return side_at(self.metatiles, zoom, scale)

    def block_sides(self) -> dict[int, int]:
        """The same for each zoom, of tiles of one scale."""
        return {zoom: self.block_side(zoom, 1) for zoom in range(self.min_zoom, self.max_zoom + 1)}


def read_first() -> None:
    """Takes the first snapshot before anybody asks, so that the database may go away from then on.

    Leaves it to the first request when the database is away already.
    """
    with suppress(DatabaseError):  # the log has it
        snapshot.get()


def joint_version(layers: Iterable[LayerView]) -> int:
    """The version of what is made of several layers: it grows when any of theirs does."""
    return sum(layer.version for layer in layers)


def layers_snapshot() -> list[LayerView]:
    """All enabled layers in the order of their slugs. Raises DatabaseError only if they could never be read."""
    return [view for _, view in sorted(snapshot.get().items())]


def layer_snapshot(slug: str) -> LayerView | None:
    """The enabled layer of that name, None if there is none. Raises DatabaseError as layers_snapshot() does."""
    return snapshot.get().get(slug)


def _expirations(kept: list[Any]) -> tuple[Expiration, ...]:
    return tuple(map(Expiration.parse, kept))


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


class _MarksKept:
    """The marks of layers, read again only under another version: they are larger than the rest of the row."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Marks]] = {}

    def of(self, layers: list[Layer]) -> dict[int, Marks]:
        """The marks by the layers' primary keys, or newer ones. Layers that are stale as a whole have none."""
        versions = {layer.pk: layer.version for layer in layers if layer.version != layer.data_version}
        known = {pk: kept for pk, kept in self._known.items() if versions.get(pk) == kept[0]}
        missing = [pk for pk in versions if pk not in known]
        rows = Layer.objects.filter(pk__in=missing).values_list("pk", "marks") if missing else ()
        known.update((pk, (versions[pk], Marks.unpack(bytes(packed)))) for pk, packed in rows)
        self._known = known
        return {pk: marks for pk, (_, marks) in known.items()}


_marks = _MarksKept()

snapshot = Snapshot("the layers", _read_layers, conf.snapshot_seconds)
