"""MapProxy under gunicorn, with as many threads as Tarry's main; its source prepares each tile for a while."""

import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stack import free_port

from . import django, mapproxy
from .sites import Content, Site, process

ZOOM = 20
LONGEST_MILLISECONDS = 10_000
CACHED = f"/wmts/roads/webmercator/{ZOOM}/0/0.png"
SOURCE_THREADS = 32
"""In two processes: more than can ask at once."""
APPLICATION = "from mapproxy.wsgiapp import make_wsgi_app\n\napplication = make_wsgi_app({file!r})\n"


@contextmanager
def start(folder: Path, tile: bytes) -> Iterator[Site]:
    """Tiles in files, one by one. The source is asked once for a tile: it takes a file as its lock."""
    python = mapproxy.installed("python")
    port, source_port = free_port(), free_port()
    file = folder / "mapproxy.yaml"
    file.write_text(json.dumps(_configuration(folder, source_port)))  # JSON is YAML
    (folder / "peer.py").write_text(APPLICATION.format(file=str(file)))
    command = [str(python), "-m", *django.gunicorn(f"127.0.0.1:{port}"), "--chdir", str(folder), "peer:application"]
    environment = {**os.environ, "PYTHONPATH": ""}
    with (
        django.running(folder, tile, f"127.0.0.1:{source_port}", threads=SOURCE_THREADS),
        process(command, folder / "mapproxy.log", environment),
    ):
        site = Site(f"127.0.0.1:{port}", CACHED, folder / "slow", _cold)
        site.wait_for_cached()
        yield site


def _cold(seconds: float) -> Content:
    """The source takes as many milliseconds as the last four digits of a tile's column say."""
    x = random.randrange(100) * LONGEST_MILLISECONDS + round(seconds * 1000)
    y = random.randrange(1 << ZOOM)
    return Content(f"/wmts/roads/webmercator/{ZOOM}/{x}/{y}.png", f"{ZOOM}-{x}-{y}")


def _configuration(folder: Path, source_port: int) -> dict[str, object]:
    configuration = mapproxy.configuration(folder, "", 1)
    source = {
        "type": "tile",
        "url": f"http://127.0.0.1:{source_port}/tiles/%(z)s/%(x)s/%(y)s.png",
        "grid": "webmercator",
        "transparent": True,
        "http": {"client_timeout": django.TIMEOUT_SECONDS},
    }
    grids = {"webmercator": {"base": "GLOBAL_WEBMERCATOR", "num_levels": ZOOM + 2}}
    return {**configuration, "sources": {"wms": source}, "grids": grids}
