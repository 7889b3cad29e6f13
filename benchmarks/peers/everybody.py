"""All sites that are compared, Tarry first. One that is missing here is said to be missing."""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from benchmarks.figures import Note
from benchmarks.peers import django, mapproxy_site, nginx, tarry, varnish
from benchmarks.peers.installing import MissingError
from benchmarks.peers.sites import Site, Starting

SITES: dict[str, Starting] = {
    "Tarry": tarry.start,
    "nginx with a lock": nginx.start,
    "Varnish": varnish.start,
    "MapProxy": mapproxy_site.start,
    "gunicorn": django.start,
}
"""nginx, Varnish and gunicorn alone have the same Django project behind them."""
TILE_BYTES, TILE_SIDE = 14_000, 256


@dataclass
class Everybody:
    """Starts one site at a time, always in a new folder. Remembers who is missing."""

    missing: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        return [name for name in SITES if name not in self.missing]

    @contextmanager
    def started(self, name: str) -> Iterator[Site]:
        """Raises MissingError."""
        with tempfile.TemporaryDirectory(prefix="tarry-peer-", dir="/tmp") as folder:  # short: it holds sockets
            Path(folder).chmod(0o755)
            with SITES[name](Path(folder), tile()) as site:
                yield site

    def all_started(self, parts: ExitStack) -> Iterator[tuple[str, Site]]:
        """All of them at once, until `parts` ends; those that are missing are remembered."""
        for name in self.names():
            try:
                yield name, parts.enter_context(self.started(name))
            except MissingError as reason:
                self.missing[name] = str(reason)

    def notes(self) -> Iterator[Note]:
        for name, reason in self.missing.items():
            yield Note(f"{name} is missing: {reason}")


def tile() -> bytes:
    """A PNG of about as many bytes as Tarry's tile: noise cannot be compressed."""
    pixels = os.urandom(TILE_BYTES) + bytes(TILE_SIDE**2 - TILE_BYTES)
    file = io.BytesIO()
    Image.frombytes("L", (TILE_SIDE, TILE_SIDE), pixels).save(file, format="PNG")
    return file.getvalue()
