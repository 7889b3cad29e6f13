"""What a static map shows, read from the parameters of a request. PURE."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from resources.tiles import grid, tile

MAX_LAYERS = 8
MAX_SIDE = 2048
MAX_PAINTED = 8_000_000
"""Pixels, of all layers together: a picture takes a painter for a second or two at the most."""
PARAMETERS = ("layers", "center", "zoom", "size", "format")

_DEGREES = r"-?[0-9]{1,3}(?:\.[0-9]{1,15})?"
_CENTER = re.compile(rf"({_DEGREES}),({_DEGREES})", re.ASCII)
_SIZE = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})", re.ASCII)
_ZOOM = re.compile(r"0|[1-9][0-9]?", re.ASCII)


class PictureError(Exception):
    """Parameters that name no picture. The message says which, and what belongs there."""


@dataclass(frozen=True, slots=True)
class Picture:
    """Layers from the lowest to the topmost, and the part of the map: (x, y) is its corner in pixels of the zoom."""

    layers: tuple[str, ...]
    zoom: int
    x: int
    y: int
    width: int
    height: int
    format: str = "png"

    @classmethod
    def read(cls, given: Mapping[str, Sequence[str]]) -> Self:
        """The picture that the parameters of a query name. Raises PictureError. Does not know which layers exist."""
        text = _each_once(given)
        zoom = _zoom(text["zoom"])
        width, height = _size(text["size"])
        u, v = _center(text["center"])
        globe = 256 << zoom
        x, y = round(u * globe - width / 2) % globe, round(v * globe - height / 2)
        picture = cls(_layers(text["layers"]), zoom, x, y, width, height, _format(text["format"]))
        if picture.painted > MAX_PAINTED:
            raise PictureError(f"size times the number of layers is {MAX_PAINTED:,} pixels at the most.")
        return picture

    @property
    def painted(self) -> int:
        """Pixels, of all layers together: what painting costs."""
        return self.width * self.height * len(self.layers)

    @property
    def content_key(self) -> str:
        """One for all ways to write the same: parameters in any order, centers within one pixel."""
        place = f"{self.zoom}:{self.x}:{self.y}:{self.width}x{self.height}"
        return f"staticmap:{','.join(self.layers)}:{place}:{self.format}"

    @property
    def content_type(self) -> str:
        return tile.TYPES[self.format]


def _each_once(given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    for name, values in given.items():
        if name not in PARAMETERS:
            raise PictureError(f"There is no parameter “{name[:40]}”; there are {', '.join(PARAMETERS)}.")
        if len(values) != 1:
            raise PictureError(f"The parameter {name} is given more than once.")
    missing = [name for name in PARAMETERS[:-1] if name not in given]
    if missing:
        raise PictureError(f"The parameter {missing[0]} is missing: layers=A,B&center=LAT,LON&zoom=Z&size=WxH.")
    return {"format": "png", **{name: values[0] for name, values in given.items()}}


def _layers(text: str) -> tuple[str, ...]:
    slugs = tuple(text.split(","))
    if not all(re.fullmatch(tile.SLUG, slug, re.ASCII) for slug in slugs):
        raise PictureError("layers are names of layers with commas between them, the lowest first.")
    if len(slugs) > MAX_LAYERS or len(set(slugs)) < len(slugs):
        raise PictureError(f"layers are {MAX_LAYERS} at most, each named once.")
    return slugs


def _center(text: str) -> tuple[float, float]:
    """The center in unit mercator; latitudes beyond the map's edge are taken for the edge."""
    match = _CENTER.fullmatch(text)
    latitude, longitude = (float(match[1]), float(match[2])) if match else (91.0, 181.0)
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise PictureError("center is LAT,LON in degrees, as 51.5,-0.12: -90 to 90, -180 to 180.")
    u, v = grid.project(np.array([[longitude, latitude]]))[0].tolist()
    return u, v


def _zoom(text: str) -> int:
    if not _ZOOM.fullmatch(text) or int(text) > grid.MAX_ZOOM:
        raise PictureError(f"zoom is a whole number from 0 to {grid.MAX_ZOOM}.")
    return int(text)


def _size(text: str) -> tuple[int, int]:
    match = _SIZE.fullmatch(text)
    if not match or max(int(match[1]), int(match[2])) > MAX_SIDE:
        raise PictureError(f"size is WIDTHxHEIGHT in pixels, as 640x480, each from 1 to {MAX_SIDE}.")
    return int(match[1]), int(match[2])


def _format(text: str) -> str:
    if text not in tile.TYPES:
        raise PictureError(f"format is {' or '.join(tile.TYPES)}.")
    return text
