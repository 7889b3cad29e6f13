"""Loads the demo's layers, in the same way as a user's own, and varies their speeds."""

import json
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..tiles import publication, styles
from ..tiles.data import compiler
from ..tiles.errors import UnknownLayerError
from ..tiles.models import Layer
from . import demo_layers
from .demo_layers import DATA_FOLDER, DEMO_LAYERS, JAMS_SLUG, DemoLayer, DemoSegment

FIRST_OFFERED_SLUGS = ("countries", "jams", "land", "london")


def load_demo(report: Callable[[str], None], offered: Collection[str] = ()) -> None:
    """Loads the demo's missing layers. Leaves existing layers alone.

    Layers `offered` before are not loaded again: an admin deleted them. Raises LayerError or ValidationError if a
    file cannot become a layer.
    """
    there = set(Layer.objects.with_tiles().values_list("slug", flat=True))
    missing = [layer for layer in DEMO_LAYERS if layer.slug not in there and layer.slug not in offered]
    for number, layer in enumerate(missing, start=1):
        stored = load_demo_layer(layer)
        if layer.slug == JAMS_SLUG:
            store_demo_speeds(read_segments())
        report(f"{number}/{len(missing)} {layer.slug}: {stored.segments:,} {layer.kind}")
    if not missing and not offered:
        report("The demo's layers are there already.")


def load_demo_once(report: Callable[[str], None], memory: Path) -> None:
    """Loads the layers never offered to this site, and notes them as offered in the file `memory`."""
    offered = read_offered(memory)
    load_demo(report, offered)
    remembered = sorted({*offered, *(layer.slug for layer in DEMO_LAYERS)})
    written = memory.with_name(f"{memory.name}.new")
    written.write_text("".join(f"{slug}\n" for slug in remembered))
    written.replace(memory)


def read_offered(memory: Path) -> set[str]:
    """Returns the slugs in the file. An existing, empty file stands for FIRST_OFFERED_SLUGS."""
    if not memory.exists():
        return set()
    return set(memory.read_text().split()) or set(FIRST_OFFERED_SLUGS)


def store_demo_speeds(segments: Sequence[DemoSegment]) -> None:
    """Stores the speeds of this moment; the layer's tiles become stale."""
    publication.store_speeds(JAMS_SLUG, demo_layers.speeds_with_free_flow(time.time(), segments))


def vary_speeds() -> None:
    """Stores the speeds of this moment, unless an admin has deleted the layer."""
    with suppress(UnknownLayerError):
        store_demo_speeds(read_segments())


def load_demo_layer(layer: DemoLayer) -> Layer:
    weight = styles.style_weight(layer.fields.get("style"))
    compiled = compiler.compile_layer(layer.kind, (DATA_FOLDER / layer.file).read_bytes(), weight=weight)
    compiled = publication.measure_metatiles(layer.slug, compiled, layer.fields)
    return publication.store_layer(layer.slug, compiled, layer.fields)


def read_segments() -> Sequence[DemoSegment]:
    """Returns the Underground's segments, each placed at its middle point."""
    features = json.loads((DATA_FOLDER / "tube.geojson").read_text())["features"]
    return [parse_segment(feature) for feature in features]


def parse_segment(feature: dict[str, Any]) -> DemoSegment:
    line = feature["geometry"]["coordinates"]
    longitude, latitude = line[len(line) // 2]
    properties = feature["properties"]
    return DemoSegment(feature["id"], properties["line"], longitude, latitude, properties["free_flow"])
