"""The settings that upstream layers read."""

from django.conf import settings

from resources.fetching.addressing import addresses
from resources.fetching.addressing.addresses import Guard


def guard() -> Guard:
    """What may be fetched from."""
    return addresses.guard((int(port) for port in settings.FETCH_PORTS), settings.FETCH_ALLOW_PRIVATE)


def max_tile_bytes() -> int:
    """The largest file that is taken for a tile."""
    return int(settings.FETCH_TILE_MAX_BYTES)
