"""All compared sites, Tarry first. A note names the missing ones."""

import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from ..figures import Note
from . import django, mapproxy_site, nginx, nginx_static, tarry, varnish
from .installation import MissingError
from .sites import Site, Starting, last_words

OURS = "Tarry"
SITES: dict[str, Starting] = {
    OURS: tarry.start,
    "nginx with a lock": nginx.start,
    "Varnish": varnish.start,
    "MapProxy": mapproxy_site.start,
    "gunicorn": django.start,
}
"""nginx, Varnish and gunicorn alone have the same Django project behind them."""
WITH_STATIC: dict[str, Starting] = {**SITES, "nginx static": nginx_static.start}
"""The above, and an nginx that serves the cached content of the others as a static file."""
TILE_BYTES, TILE_SIDE = 14_000, 256


@dataclass
class Everybody:
    """Starts one site at a time, always in a new folder. Keeps the missing ones."""

    sites: Mapping[str, Starting] = field(default_factory=lambda: SITES)
    missing: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        return [name for name in self.sites if name not in self.missing]

    @contextmanager
    def started(self, name: str) -> Iterator[Site]:
        """Raises MissingError, also for a peer that is installed and does not start. For Tarry: AssertionError."""
        with tempfile.TemporaryDirectory(prefix="tarry-peer-", dir="/tmp") as directory, ExitStack() as parts:
            folder = Path(directory)  # short: it holds sockets
            folder.chmod(0o755)
            try:
                site = parts.enter_context(self.sites[name](folder, tile()))
            except AssertionError as error:  # the caller that waits for a start raises it
                if name == OURS:
                    raise
                raise MissingError(f"it does not start: {last_words(folder) or error}") from error
            yield site

    def all_started(self, parts: ExitStack) -> Iterator[tuple[str, Site]]:
        """Starts all sites at once, until `parts` ends. Remembers the missing ones."""
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
