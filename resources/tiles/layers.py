"""What main knows of the layers: a snapshot of all of them, taken at most every half second.

An unknown layer costs nothing, and a database that is away changes nothing but the age of the
snapshot. Does not load geometry: painters do.
"""

import logging
import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self

from django.db import Error as DatabaseError

from resources.models import Layer
from retry import observing

from . import conf, grid
from .errors import LayerError

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

    @classmethod
    def of(cls, layer: Layer) -> Self:
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
        )

    def has_zoom(self, zoom: int) -> bool:
        return self.min_zoom <= zoom <= self.max_zoom


@dataclass(slots=True)
class Snapshot:
    """All enabled layers by slug, as of at most LAYER_SNAPSHOT_SECONDS ago if the database answers."""

    _layers: dict[str, LayerView] | None = None
    _taken: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def find(self, slug: str) -> LayerView | None:
        """The layer, or None. Raises DatabaseError only if the layers could never be read."""
        known = self._layers
        if known is None or time.monotonic() - self._taken >= conf.snapshot_seconds():
            known = self._renew(known)
        return known.get(slug)

    def forget(self) -> None:
        with self._lock:
            self._layers = None

    def _renew(self, known: dict[str, LayerView] | None) -> dict[str, LayerView]:
        if known is not None and not self._lock.acquire(blocking=False):
            return known  # another thread is asking already
        if known is None:
            self._lock.acquire()
        try:
            if known is None and self._layers is not None:
                return self._layers  # another thread read them while this one waited
            self._taken = time.monotonic()
            self._layers = _read_layers()
        except DatabaseError:
            if known is None:
                raise
            _log.warning("serving the last snapshot of the layers: the database failed", exc_info=True)
            return known
        finally:
            self._lock.release()
        return self._layers


snapshot = Snapshot()


def layer_snapshot(slug: str) -> LayerView | None:
    """The enabled layer of that name, None if there is none."""
    return snapshot.find(slug)


def _read_layers() -> dict[str, LayerView]:
    with observing.timed("database"):
        layers = list(Layer.objects.filter(enabled=True).exclude(geometry_name=""))
    views: dict[str, LayerView] = {}
    for layer in layers:
        try:
            views[layer.slug] = LayerView.of(layer)
        except LayerError as error:  # one bad row must not take the others along
            _log.error("left out a layer", extra={"layer": layer.slug, "error": str(error)})
    return views
