"""The settings that layers read, in the form that the pure modules take them."""

from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from .reading import geojson

CLOCK_SKEW = timedelta(minutes=5)
"""By so much other people's clocks may be fast."""


def limits() -> geojson.Limits:
    """What a layer's file may hold, if it is read now."""
    return geojson.Limits(
        max_bytes=settings.LAYER_MAX_BYTES,
        max_positions_per_line=settings.LAYER_MAX_POSITIONS_PER_LINE,
        measured_until=timezone.now() + CLOCK_SKEW,
    )


def compile_seconds() -> float:
    """How long the admin waits for a file to be compiled."""
    return float(settings.LAYER_COMPILE_SECONDS)


def compile_bytes() -> int:
    """How much memory, as address space, a file uploaded to the admin may take to compile."""
    return int(settings.LAYER_COMPILE_BYTES)


def compiled_at_once() -> int:
    """How many uploaded files are read at a time on this machine."""
    return int(settings.LAYER_COMPILED_AT_ONCE)


def uploads() -> Path:
    """Where uploaded files lie until they are stored."""
    return Path(settings.UPLOADS_DIRECTORY)


def snapshot_seconds() -> float:
    """How long a process goes on with what it knows of the layers."""
    return float(settings.LAYER_SNAPSHOT_SECONDS)


def scenes_kept() -> int:
    """How many layers a painter's process keeps in memory."""
    return int(settings.LAYER_SCENES_KEPT)


def block_seconds() -> float:
    """How long painting a block of tiles may take; 0 for no blocks."""
    return float(settings.LAYER_BLOCK_SECONDS)
