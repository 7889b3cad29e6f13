"""MapProxy beside Tarry: the same metatiles from a source that paints as our painters do.

MapProxy is installed into an environment of its own, and is no part of the project.
"""

import io
import json
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

from resources.tiles.render import painter
from resources.tiles.render.painter import AnyScene
from resources.tiles.tile_address import Tile
from resources.tiles.window import Window
from tests.support.stack import eventually, free_port

from ..figures import Figure, Note, median
from . import installation
from .installation import MissingError

PACKAGES = ("MapProxy>=4", "setuptools<81", "gunicorn>=23")
HALF_GLOBE_METRES = 20037508.342789244
ROUNDS = 3


def compare(scene: AnyScene, tiles: Sequence[Tile], side: int) -> Iterator[Figure | Note]:
    """Time of one request for a cold tile, which makes MapProxy fetch, cut, encode and keep its metatile."""
    try:
        program = installed("mapproxy-util")
    except MissingError as missing:
        yield Note(f"MapProxy is missing: {missing}")
        return
    with (
        tempfile.TemporaryDirectory() as name,
        picturing(scene) as source,
        _running(program, Path(name), source, side) as base,
    ):
        wanted = tiles[0]
        theirs, source_share = [], []
        for _ in range(ROUNDS):
            shutil.rmtree(Path(name) / "cache", ignore_errors=True)
            Source.seconds = 0.0
            began = time.perf_counter()
            body = _read(f"{base}/{wanted.z}/{wanted.x}/{wanted.y}.png")
            theirs.append(time.perf_counter() - began)
            source_share.append(Source.seconds)
        kept = sum(1 for _ in (Path(name) / "cache").rglob("*.png"))
    ours = [_seconds(scene, tiles) for _ in range(ROUNDS)]
    zoom = wanted.z
    yield Note(f"zoom {zoom}: MapProxy keeps {kept} tiles; {_difference(body, painter.paint_tile(scene, wanted))}")
    yield Figure(
        f"zoom {zoom}: MapProxy's metatile of {side} × {side}, of an equal source", median(theirs) * 1000, "ms"
    )
    yield Figure(
        f"zoom {zoom}: of it in the source, painting and encoding one picture", median(source_share) * 1000, "ms"
    )
    yield Figure(f"zoom {zoom}: the same metatile by Tarry's painter", median(ours) * 1000, "ms")
    yield Figure(f"zoom {zoom}: MapProxy ÷ Tarry", median(theirs) / median(ours))


def _seconds(scene: AnyScene, tiles: Sequence[Tile]) -> float:
    began = time.perf_counter()
    painter.paint_tiles(scene, tiles)
    return time.perf_counter() - began


def _difference(theirs: bytes, ours: bytes) -> str:
    one, other = (
        np.asarray(Image.open(io.BytesIO(file)).convert("RGBA")).astype(int)[..., 3] for file in (theirs, ours)
    )
    return f"its picture differs from ours by {np.abs(one - other).mean():.1f} of 255 in coverage"


def installed(command: str) -> Path:
    """A command of MapProxy's, which is installed if need be. Raises MissingError."""
    return installation.commands("mapproxy", *PACKAGES) / command


@contextmanager
def _running(program: Path, folder: Path, source: str, side: int) -> Iterator[str]:
    """The address of the layer's tiles at a MapProxy of its own."""
    port = free_port()
    file = folder / "mapproxy.yaml"
    file.write_text(json.dumps(configuration(folder, source, side)))  # JSON is YAML
    command = [str(program), "serve-develop", "-b", f"127.0.0.1:{port}", str(file)]
    log = (folder / "log").open("w")
    with log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            base = f"http://127.0.0.1:{port}"
            eventually(lambda: _answers(base), 30, "MapProxy answers")
            yield f"{base}/wmts/roads/webmercator"
        finally:
            process.terminate()
            process.wait(10)


def configuration(folder: Path, source: str, side: int) -> dict[str, object]:
    """A cache of tiles in files, fetched from the source in metatiles of so many by so many."""
    wms = {
        "type": "wms",
        "req": {"url": source, "layers": "roads", "transparent": True},
        "supported_srs": ["EPSG:3857"],
    }
    grids = {"webmercator": {"base": "GLOBAL_WEBMERCATOR"}}
    kept = {
        "sources": ["wms"],
        "grids": ["webmercator"],
        "format": "image/png",
        "cache": {"type": "file", "directory": str(folder / "cache")},
    }
    return {
        "services": {
            "wmts": {
                "restful": True,
                "kvp": False,
                "restful_template": "/{Layer}/{TileMatrixSet}/{TileMatrix}/{TileCol}/{TileRow}.{Format}",
            }
        },
        "layers": [{"name": "roads", "title": "roads", "tile_sources": ["kept"]}],
        "caches": {"kept": kept},
        "sources": {"wms": wms},
        "grids": grids,
        "globals": {
            "cache": {
                "meta_size": [side, side],
                "meta_buffer": 0,
                "lock_dir": str(folder / "locks"),
                "base_dir": str(folder),
            }
        },
    }


def _answers(base: str) -> bool:
    try:
        _read(f"{base}/wmts/1.0.0/WMTSCapabilities.xml")
    except OSError:
        return False
    return True


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        body: bytes = answer.read()
        return body


class Source(BaseHTTPRequestHandler):
    """A WMS that knows GetMap in EPSG:3857 and one layer."""

    scene: AnyScene
    seconds = 0.0

    def do_GET(self) -> None:
        began = time.perf_counter()
        asked = {name.lower(): values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        body = _picture(self.scene, [float(value) for value in asked["bbox"].split(",")], int(asked["width"]))
        Source.seconds += time.perf_counter() - began
        self.send_response(200)
        self.send_header("Content-Type", "image/png")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class names it
        """Says nothing."""


def _picture(scene: AnyScene, box: Sequence[float], width: int) -> bytes:
    west, south, east, north = ((value + HALF_GLOBE_METRES) / (2 * HALF_GLOBE_METRES) for value in box)
    zoom = round(np.log2(width / 256 / (east - west)))
    pixels = 512 << zoom
    window = Window(zoom, round(west * pixels), round((1 - north) * pixels), 2 * width, round((north - south) * pixels))
    image = painter.draw_window(scene, window, zoom, 1)
    samples = np.zeros((window.height, window.width), np.uint8) if image is None else np.asarray(image)
    buffer = io.BytesIO()
    painter.blend_samples(samples, scene.style.palette).save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


@contextmanager
def picturing(scene: AnyScene) -> Iterator[str]:
    """The address of a WMS that paints the scene, in this process."""
    Source.scene = scene
    with ThreadingHTTPServer(("127.0.0.1", 0), Source) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/wms?"
        finally:
            server.shutdown()
