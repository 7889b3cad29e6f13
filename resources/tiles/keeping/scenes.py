"""A painter's layers: loaded from the storage once per version and process, the last used kept."""

import json
from typing import cast

from resources.models import Layer
from retry import observing

from .. import conf
from ..drawing import building
from ..drawing.building import AnyScene, Ground
from ..errors import UnknownLayerError
from ..last_used import LastUsed
from ..layers import LayerView
from ..reading.geojson import Kind
from . import files

ATTEMPTS = 3

_grounds: LastUsed[Ground] = LastUsed()
_scenes: LastUsed[AnyScene] = LastUsed()


def load_scene(slug: str) -> tuple[LayerView, AnyScene]:
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
        layer = Layer.objects.filter(slug=slug, enabled=True).exclude(geometry_name="").defer("marks").first()
    if layer is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return layer


def _scene(layer: Layer) -> AnyScene:
    key = (layer.kind, layer.geometry_name, layer.speeds_name, json.dumps(layer.style, sort_keys=True))
    return _scenes.get(key, lambda: _load(layer), most=conf.scenes_kept())


def _load(layer: Layer) -> AnyScene:
    kind, name = cast(Kind, layer.kind), layer.geometry_name
    ground = _grounds.get(name, lambda: building.read_ground(kind, files.read(name)), most=conf.scenes_kept())
    speeds = files.read(layer.speeds_name) if kind == "lines" and layer.speeds_name else None
    return building.build(kind, ground, speeds, layer.style)
