"""nginx and a file: the time of cached content without any preparation. It has no cold content."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import nginx
from .sites import Site


@contextmanager
def start(folder: Path, tile: bytes) -> Iterator[Site]:
    """The tile as a file, by the same settings as nginx with a lock."""
    files = folder / "files"
    files.mkdir()
    (files / "tile.png").write_bytes(tile)
    with nginx.running(folder, f"root {files};") as host:
        site = Site(host, "/tile.png", folder / "slow")
        site.wait_for_cached()
        yield site
