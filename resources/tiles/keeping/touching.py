"""What a change of a layer's data touches, and whether that still holds when it is saved. Saves nothing."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

from resources.models import Layer

from .. import conf
from ..errors import LayerError
from ..marking import changing, shapes
from ..marking.changing import Look
from ..marking.shapes import Data
from ..reading import patching, speeds
from ..reading.geojson import Kind
from ..reading.speeds import Speeds
from ..touched import Touched
from . import allowing, apart, uploads
from .apart import DataMarkJob, MarkJob

HERE_CHANGED = 500
"""So many changed segments are looked at in a web process; more would hold its other threads up for a second."""

HERE_BYTES = 20_000_000
"""So large is the geometry of some 200,000 short segments; larger ones are never read in a web process."""

_log = logging.getLogger("tarry.layers")


@dataclass(frozen=True, slots=True)
class Change:
    """The tiles that look different, None for all; and what the layer was when that was found out."""

    touched: Touched | None
    of: tuple[object, ...]

    def touched_in(self, layer: Layer) -> Touched | None:
        """The same for the layer as it is now: all tiles where somebody else has changed it."""
        return self.touched if self.of == _state(layer) else None


MarkData: TypeAlias = Callable[[Layer, Data, Data], Change]
"""Finds out what other data touch."""


class Mark(Protocol):
    """Finds out what new speeds touch."""

    def __call__(
        self, layer: Layer, geometry: bytes, before: Speeds | None, after: Speeds, closely: bool = ...
    ) -> Change: ...


def here(layer: Layer, geometry: bytes, before: Speeds | None, after: Speeds, closely: bool = True) -> Change:
    """What new speeds touch, found out in this process; a little more when it need not be `closely`."""
    return Change(changing.touched_by_speeds(geometry, before, after, _look(layer, closely)), _state(layer))


def by_data(layer: Layer, before: Data, after: Data) -> Change:
    """What other data of the same kind touch, found out in this process."""
    return Change(shapes.touched_by_data(cast(Kind, layer.kind), before, after, _look(layer)), _state(layer))


def by_data_aside(layer: Layer, before: Data, after: Data) -> Change:
    """The same in a process of its own, for a web process; all tiles where that has no place."""
    job = DataMarkJob(cast(Kind, layer.kind), before, after, _look(layer))
    return _aside(layer, lambda: apart.mark_apart(job, allowing.allowance()))


def aside(layer: Layer, geometry: bytes, before: Speeds | None, after: Speeds, closely: bool = True) -> Change:
    """What new speeds touch, for a web process: what takes long, in a process of its own, as above."""
    if before is not None and len(geometry) < HERE_BYTES and patching.changed(before, after) <= HERE_CHANGED:
        return here(layer, geometry, before, after, closely)
    return _aside(layer, lambda: _apart(geometry, before, after, _look(layer, closely)))


def _aside(layer: Layer, find: Callable[[], Touched | None]) -> Change:
    try:
        return Change(find(), _state(layer))
    except LayerError as error:
        _log.warning("marked all tiles of a layer", extra={"layer": layer.slug, "error": str(error)})
        return Change(None, _state(layer))


def _apart(geometry: bytes, before: Speeds | None, after: Speeds, look: Look) -> Touched | None:
    with uploads.folder(conf.uploads()) as folder:
        compiled = folder / "geometry.npz"
        compiled.write_bytes(geometry)
        old = None if before is None else speeds.write_speeds(before)
        return apart.mark_apart(MarkJob(compiled, old, speeds.write_speeds(after), look), allowing.allowance())


def _look(layer: Layer, closely: bool = True) -> Look:
    return Look(layer.style, layer.min_zoom, layer.max_zoom, closely)


def _state(layer: Layer) -> tuple[object, ...]:
    return layer.kind, layer.geometry_name, layer.speeds_name, layer.style, layer.min_zoom, layer.max_zoom
