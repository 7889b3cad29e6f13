"""Loads the demo's layers: the same way as anybody's own."""

import json
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from resources.demo import layers, speeds
from resources.demo.layers import JAMS, DemoLayer
from resources.models import Layer
from resources.tiles.errors import UnknownLayerError
from resources.tiles.keeping import storing
from resources.tiles.reading import compiling
from resources.tiles.styling import point_style

FIRST_LAYERS = ("countries", "jams", "land", "london")


def load_demo(report: Callable[[str], None], offered: Collection[str] = ()) -> int:
    """Loads the layers that are not there, and answers how many. Leaves alone those that are.

    Those that were `offered` before are not loaded again: somebody deleted them. Raises LayerError or
    ValidationError when a file cannot become a layer.
    """
    there = set(Layer.objects.with_tiles().values_list("slug", flat=True))
    missing = [layer for layer in layers.LAYERS if layer.slug not in there and layer.slug not in offered]
    for number, layer in enumerate(missing, start=1):
        stored = load(layer)
        if layer.slug == JAMS:
            store_speeds(read_segments())
        report(f"{number}/{len(missing)} {layer.slug}: {stored.segments:,} {layer.kind}")
    if not missing and not offered:
        report("The demo's layers are there already.")
    return len(missing)


def load_demo_once(report: Callable[[str], None], memory: Path) -> int:
    """Loads the layers that were never offered to this site, and remembers in a file that they were."""
    offered = read_offered(memory)
    loaded = load_demo(report, offered)
    remembered = sorted({*offered, *(layer.slug for layer in layers.LAYERS)})
    written = memory.with_name(f"{memory.name}.new")
    written.write_text("".join(f"{slug}\n" for slug in remembered))
    written.replace(memory)
    return loaded


def read_offered(memory: Path) -> set[str]:
    """The slugs that a file remembers. A file that is there and empty stands for FIRST_LAYERS."""
    if not memory.exists():
        return set()
    return set(memory.read_text().split()) or set(FIRST_LAYERS)


def store_speeds(segments: Sequence[speeds.Segment]) -> None:
    """Stores the speeds of this moment; the layer's tiles become stale."""
    storing.store_speeds(JAMS, speeds.with_free_flow(time.time(), segments))


def vary_speeds() -> None:
    """The same, unless the layer is gone: an admin may delete it."""
    with suppress(UnknownLayerError):
        store_speeds(read_segments())


def load(layer: DemoLayer) -> Layer:
    weight = point_style.weight_of(layer.fields.get("style"))
    compiled = compiling.compile_layer(layer.kind, (layers.DATA / layer.file).read_bytes(), weight=weight)
    compiled = storing.size_blocks(layer.slug, compiled, layer.fields)
    return storing.store_layer(layer.slug, compiled, layer.fields)


def read_segments() -> Sequence[speeds.Segment]:
    """Returns the Underground's segments, each placed at its middle point."""
    features = json.loads((layers.DATA / "tube.geojson").read_text())["features"]
    return [segment_of(feature) for feature in features]


def segment_of(feature: dict[str, Any]) -> speeds.Segment:
    line = feature["geometry"]["coordinates"]
    longitude, latitude = line[len(line) // 2]
    properties = feature["properties"]
    return speeds.Segment(feature["id"], properties["line"], longitude, latitude, properties["free_flow"])
