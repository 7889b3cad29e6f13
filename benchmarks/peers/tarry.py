"""Tarry itself, as it is by default."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stack import Stack

from ..tiles.tile_requests import painted_tile
from .sites import Site


@contextmanager
def start(_folder: Path, _tile: bytes, **environment: str) -> Iterator[Site]:
    """A whole site with these settings. It has a folder and a tile of its own."""
    with Stack(**environment) as stack:
        site = Site(stack.host, painted_tile(stack), stack.data / "slow")
        site.wait_for_cached()
        yield site
