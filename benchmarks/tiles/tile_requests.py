"""A real tile: a layer of the benchmarks' own, and one tile of it, painted and hot."""

import json
import time
import urllib.request
from pathlib import Path

from tests.support.stack import Stack

ZOOM, X, Y = 12, 2048, 2047
LINES = 300
SPAN_DEGREES = 360 / 2**ZOOM


def painted_tile(stack: Stack) -> str:
    """The path of a tile that main has in its cache. Loads a layer of lines for it."""
    data = Path(stack.directory / "lines.geojson")
    data.write_text(json.dumps({"type": "FeatureCollection", "features": [_line(place) for place in range(LINES)]}))
    stack.change_layers("load_layer", "bench", "--lines", str(data), "--fresh", "3600", "--stale", "3600")
    path = f"/tiles/bench/{ZOOM}/{X}/{Y}.png"
    fetched(stack, path)
    return path


def fetched(stack: Stack, path: str) -> bytes:
    """The content, prepared and given to the front's hot cache. Raises OSError when it is not served."""
    for _ in range(2):
        with urllib.request.urlopen(stack.base_url + path, timeout=60) as answer:
            body: bytes = answer.read()
            status = answer.headers.get_all("Cache-Status") or []
        if any("nginx; hit" in member for member in status):
            return body
        time.sleep(0.05)
    return body


def _line(place: int) -> dict[str, object]:
    """A line across the tile, each at another slope and speed."""
    share = place / LINES
    ends = [[0.0, share * SPAN_DEGREES], [SPAN_DEGREES, (share * 7 % 1) * SPAN_DEGREES]]
    return {
        "type": "Feature",
        "id": str(place),
        "geometry": {"type": "LineString", "coordinates": ends},
        "properties": {"speed": 10 + place % 60, "free_flow": 60},
    }
