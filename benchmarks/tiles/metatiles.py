"""What a piece of work costs a painter besides painting."""

import json
import time
import urllib.request

from benchmarks.processes import cpu_seconds
from resources.tiles.drawing import painting
from resources.tiles.tile import Tile
from tests.flows.stack import Stack
from tests.resources.tiles import builders

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
        stack.manage("load_layer", "pieces", "--lines", str(data))
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
    scene = builders.scene_of("lines", builders.collection(builders.line("a", LINE)))
    tiles = [Tile.parse(f"pieces/{_address(column)}") for column in range(50)]
    began = time.process_time()
    for tile in tiles:
        assert tile is not None
        painting.paint(scene, tile)
    return (time.process_time() - began) / len(tiles)
