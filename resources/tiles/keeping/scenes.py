"""A painter's layers: loaded from the storage once per version and process, the last used kept."""

import json
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, Literal, TypeVar

from resources.models import Layer
from retry import observing

from .. import conf
from ..drawing.points.scene import PointScene
from ..drawing.scene import Index, Scene, compose
from ..errors import UnknownLayerError
from ..layers import LayerView
from ..reading import geometry, points, speeds
from ..reading.points import Points
from ..styling import style
from .storing import read_file

ATTEMPTS = 3

Value = TypeVar("Value")


@dataclass(slots=True)
class LastUsed(Generic[Value]):
    """A few values by key, those used last. Makes a value twice when two threads ask at once."""

    _values: OrderedDict[Hashable, Value] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > conf.scenes_kept():
                self._values.popitem(last=False)
        return value


_indexes: LastUsed[Index] = LastUsed()
_points: LastUsed[Points] = LastUsed()
_scenes: LastUsed[Scene | PointScene] = LastUsed()


def load_scene(slug: str) -> tuple[LayerView, Scene | PointScene]:
    """The layer as it is now, ready to paint. Raises UnknownLayerError when it is gone."""
    for attempt in range(ATTEMPTS):
        layer = _find(slug)
        try:
            return LayerView.of(layer), _scene(layer)
        except FileNotFoundError:  # its data was replaced after the row was read
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _find(slug: str) -> Layer:
    with observing.timed("database"):
        layer = Layer.objects.filter(slug=slug, enabled=True).exclude(geometry_name="").first()
    if layer is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return layer


def _scene(layer: Layer) -> Scene | PointScene:
    key = (layer.kind, layer.geometry_name, layer.speeds_name, json.dumps(layer.style, sort_keys=True))
    load = _load_points if layer.kind == Layer.Kind.POINTS else _load
    return _scenes.get(key, lambda: load(layer))


def _load_points(layer: Layer) -> PointScene:
    name = layer.geometry_name
    known = _points.get(name, lambda: points.read_points(read_file(name)))
    return PointScene.of(known, style.parse_style("points", layer.style))


def _load(layer: Layer) -> Scene:
    kind: Literal["areas", "lines"] = "areas" if layer.kind == Layer.Kind.AREAS else "lines"
    index = _indexes.get(
        layer.geometry_name, lambda: Index.build(geometry.read_geometry(read_file(layer.geometry_name)))
    )
    known = speeds.read_speeds(read_file(layer.speeds_name)) if kind == "lines" and layer.speeds_name else None
    return compose(kind, index, known, style.parse_style(kind, layer.style))
