"""The cost of a piece of work for a painter besides painting."""

import json
import time
import urllib.request

from resources.tiles.render import painter
from resources.tiles.tile_address import Tile
from tests.support import geojson
from tests.support.stack import Stack

from ..machine import cpu_seconds

ZOOM = 16
PIECES = 150
LINE = [[0.0, 0.001], [0.9, 0.001]]


def measure_work() -> float:
    """CPU seconds of the painting worker by piece of work, less those of painting its tile.

    Message, claim, lease, the layer's row, the store and the end of the claim: a site of its own is
    asked for tiles of one line that were never painted, each a piece of work.
    """
    with Stack(LAYER_BLOCK_SECONDS="0") as stack:
        data = stack.directory / "line.geojson"
        line = {"type": "Feature", "id": "a", "properties": {}, "geometry": {"type": "LineString", "coordinates": LINE}}
        data.write_text(json.dumps({"type": "FeatureCollection", "features": [line]}))
        stack.change_layers("load_layer", "pieces", "--lines", str(data))
        _ask(stack, range(10))
        painters = stack.pids("paint-now")
        before = cpu_seconds(painters)
        _ask(stack, range(10, 10 + PIECES))
        spent = (cpu_seconds(painters) - before) / PIECES
    return spent - _painting_seconds()


def _ask(stack: Stack, columns: range) -> None:
    for column in columns:
        with urllib.request.urlopen(stack.base_url + f"/tiles/pieces/{_address(column)}", timeout=60) as answer:
            answer.read()


def _address(column: int) -> str:
    return f"{ZOOM}/{(1 << ZOOM - 1) + column}/{(1 << ZOOM - 1) - 1}.png"


def _painting_seconds() -> float:
    scene = geojson.scene_of("lines", geojson.collection(geojson.line("a", LINE)))
    tiles = [Tile.parse(f"pieces/{_address(column)}") for column in range(50)]
    began = time.process_time()
    for tile in tiles:
        assert tile is not None
        painter.paint_tile(scene, tile)
    return (time.process_time() - began) / len(tiles)
