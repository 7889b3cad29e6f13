"""The settings that layers read, with defaults for projects that set none of them."""

from django.conf import settings

from . import geojson


def limits() -> geojson.Limits:
    """How much a layer's file may hold: LAYER_MAX_BYTES, LAYER_MAX_POSITIONS_PER_LINE."""
    return geojson.Limits(
        max_bytes=getattr(settings, "LAYER_MAX_BYTES", 100_000_000),
        max_positions_per_line=getattr(settings, "LAYER_MAX_POSITIONS_PER_LINE", 250_000),
    )


def compile_seconds() -> float:
    """How long the admin waits for a file to be compiled: LAYER_COMPILE_SECONDS."""
    return float(getattr(settings, "LAYER_COMPILE_SECONDS", 60))


def snapshot_seconds() -> float:
    """How long a process goes on with what it knows of the layers: LAYER_SNAPSHOT_SECONDS."""
    return float(getattr(settings, "LAYER_SNAPSHOT_SECONDS", 0.5))


def scenes_kept() -> int:
    """How many layers a painter's process keeps in memory: LAYER_SCENES_KEPT."""
    return int(getattr(settings, "LAYER_SCENES_KEPT", 8))
