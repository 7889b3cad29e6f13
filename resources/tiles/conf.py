"""The settings of layers and upstream tiles, in the form that the pure modules take."""

from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from ..fetch.http import allowed_ips
from ..fetch.http.allowed_ips import AddressGuard
from .data.limits import LayerLimits

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""Allowance for senders' clocks that are fast."""


def layer_limits() -> LayerLimits:
    return LayerLimits(
        max_bytes=settings.LAYER_MAX_BYTES,
        max_positions_per_line=settings.LAYER_MAX_POSITIONS_PER_LINE,
        measured_until=timezone.now() + MAX_CLOCK_SKEW,
    )


def uploads_folder() -> Path:
    return Path(settings.UPLOADS_DIRECTORY)


def upstream_guard() -> AddressGuard:
    """Returns the guard of the ports and hosts that tiles may be fetched from."""
    return allowed_ips.build_guard((int(port) for port in settings.FETCH_PORTS), settings.FETCH_ALLOW_PRIVATE)
