"""A layer of one broad line, for flows: its tiles show its speed."""

import json
from io import BytesIO
from pathlib import Path

from PIL import Image

from resources.tiles.styles import TRAFFIC_CLASSES

from .stack import Stack

COLOURS = {kind.name: kind.colour for kind in TRAFFIC_CLASSES}
SPEEDS = {"green": "a,60,60", "dark_red": "a,5,60"}


def load_line(stack: Stack, slug: str, directory: Path) -> str:
    """Loads a layer of a line along the equator, where traffic flows; returns the address of a tile."""
    geometry = {"type": "LineString", "coordinates": [[-90, 0.1], [90, 0.1]]}
    line = {"type": "Feature", "id": "a", "properties": {}, "geometry": geometry}
    file = directory / "line.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [line]}))
    speeds = write_speeds(directory, "green")
    stack.change_layers(
        "load_layer", slug, "--lines", str(file), "--speeds", str(speeds), "--style", '{"widths": {"0": 12}}'
    )
    return f"/tiles/{slug}/1/0/0.png"


def write_speeds(directory: Path, colour: str) -> Path:
    """A file of speeds that paint the line in that colour."""
    file = directory / "speeds.csv"
    file.write_text(f"segment_id,speed_kmh,free_flow_kmh\n{SPEEDS[colour]}\n")
    return file


def colour_of(tile: bytes) -> str:
    """The colour that most of the line has."""
    picture = Image.open(BytesIO(tile)).convert("RGBA")
    colours = picture.getcolors(picture.width * picture.height) or []
    opaque = [(count, rgba) for count, rgba in colours if isinstance(rgba, tuple) and rgba[3] == 255]
    red, green, blue, _ = max(opaque)[1]
    return min(COLOURS, key=lambda name: _distance((red, green, blue), COLOURS[name]))


def _distance(rgb: tuple[int, int, int], code: str) -> int:
    return sum(abs(value - int(code[at : at + 2], 16)) for value, at in zip(rgb, (1, 3, 5), strict=True))
