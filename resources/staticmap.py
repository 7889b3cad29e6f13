"""Static maps: several layers in one picture, painted on demand. The example of docs/add-your-own.md in one file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from urllib.parse import parse_qs

import numpy as np
from django.http import HttpRequest, HttpResponse
from PIL import Image

from retry import contents, deferral, errors, responses
from retry import work as retry_work

from . import database
from .image_formats import DEFAULT_TILE_FORMAT, TILE_FORMATS
from .prewarm.pieces import Piece, WantedContent, take_slowest_lane
from .tiles import grid, layers, tile_address, work
from .tiles.errors import UnknownLayerError
from .tiles.layers import LayerView, joint_version
from .tiles.render import painter
from .tiles.render.painter import AnyScene
from .tiles.window import SUPERSAMPLING, Window
from .traffic.asked import Asked

MAX_LAYERS = 8
MAX_SIDE_PIXELS = 2048
MAX_PAINTED_PIXELS = 8_000_000
"""Pixels, of all layers together: a picture takes a painter a second or two at the most."""
PARAMETERS = ("layers", "center", "zoom", "size", "format")

TRAFFIC_KIND = "staticmap"

_KEY_PATTERN = re.compile(
    rf"{TRAFFIC_KIND}:(?P<layers>[a-z0-9_,-]+):(?P<zoom>\d+):(?P<x>\d+):(?P<y>-?\d+):"
    r"(?P<width>\d+)x(?P<height>\d+):(?P<format>[a-z]+)",
    re.ASCII,
)
_DEGREES = r"-?[0-9]{1,3}(?:\.[0-9]{1,15})?"
_CENTER_PATTERN = re.compile(rf"({_DEGREES}),({_DEGREES})", re.ASCII)
_SIZE_PATTERN = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})", re.ASCII)
_ZOOM_PATTERN = re.compile(r"0|[1-9][0-9]?", re.ASCII)


class StaticMapError(Exception):
    """Parameters that name no picture. The message says which parameter, and its right form."""


@dataclass(frozen=True, slots=True)
class StaticMap:
    """Layers from the lowest to the topmost, and the part of the map: (x, y) is its corner in pixels of the zoom."""

    layers: tuple[str, ...]
    zoom: int
    x: int
    y: int
    width: int
    height: int
    format: str = DEFAULT_TILE_FORMAT

    @classmethod
    def read(cls, given: Mapping[str, Sequence[str]]) -> Self:
        """Reads the parameters of a query. Raises StaticMapError. Does not check that the layers exist."""
        text = _unique_parameters(given)
        zoom = _parse_zoom(text["zoom"])
        width, height = _parse_size(text["size"])
        u, v = _parse_center(text["center"])
        globe = 256 << zoom
        x, y = round(u * globe - width / 2) % globe, round(v * globe - height / 2)
        picture = cls(_parse_layers(text["layers"]), zoom, x, y, width, height, _parse_format(text["format"]))
        if picture.painted > MAX_PAINTED_PIXELS:
            raise StaticMapError(f"size times the number of layers is at most {MAX_PAINTED_PIXELS:,} pixels.")
        return picture

    @classmethod
    def of_key(cls, content_key: str) -> Self | None:
        """Returns the picture of a content key; None for the key of anything else."""
        match = _KEY_PATTERN.fullmatch(content_key)
        if match is None or match["format"] not in TILE_FORMATS:
            return None
        zoom, x, y, width, height = (int(match[name]) for name in ("zoom", "x", "y", "width", "height"))
        return cls(tuple(match["layers"].split(",")), zoom, x, y, width, height, match["format"])

    @property
    def painted(self) -> int:
        """Pixels, of all layers together: the cost of painting."""
        return self.width * self.height * len(self.layers)

    @property
    def content_key(self) -> str:
        """The same key for all spellings of a picture: parameters in any order, centers within one pixel."""
        place = f"{self.zoom}:{self.x}:{self.y}:{self.width}x{self.height}"
        return f"staticmap:{','.join(self.layers)}:{place}:{self.format}"

    @property
    def content_type(self) -> str:
        return TILE_FORMATS[self.format].media_type


def _unique_parameters(given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    for name, values in given.items():
        if name not in PARAMETERS:
            raise StaticMapError(f"There is no parameter “{name[:40]}”; there are {', '.join(PARAMETERS)}.")
        if len(values) != 1:
            raise StaticMapError(f"The parameter {name} is given more than once.")
    missing = [name for name in PARAMETERS[:-1] if name not in given]
    if missing:
        raise StaticMapError(f"The parameter {missing[0]} is missing: layers=A,B&center=LAT,LON&zoom=Z&size=WxH.")
    return {"format": DEFAULT_TILE_FORMAT, **{name: values[0] for name, values in given.items()}}


def _parse_layers(text: str) -> tuple[str, ...]:
    slugs = tuple(text.split(","))
    if not all(re.fullmatch(tile_address.SLUG_PATTERN, slug, re.ASCII) for slug in slugs):
        raise StaticMapError("layers are names of layers with commas between them, the lowest first.")
    if len(slugs) > MAX_LAYERS or len(set(slugs)) < len(slugs):
        raise StaticMapError(f"layers are {MAX_LAYERS} at most, each named once.")
    return slugs


def _parse_center(text: str) -> tuple[float, float]:
    """Returns the center in unit mercator; latitudes beyond the map's edge are taken for the edge."""
    match = _CENTER_PATTERN.fullmatch(text)
    latitude, longitude = (float(match[1]), float(match[2])) if match else (91.0, 181.0)
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise StaticMapError("center is LAT,LON in degrees, as 51.5,-0.12: -90 to 90, -180 to 180.")
    return grid.project_place(longitude, latitude)


def _parse_zoom(text: str) -> int:
    if not _ZOOM_PATTERN.fullmatch(text) or int(text) > grid.MAX_ZOOM:
        raise StaticMapError(f"zoom is a whole number from 0 to {grid.MAX_ZOOM}.")
    return int(text)


def _parse_size(text: str) -> tuple[int, int]:
    match = _SIZE_PATTERN.fullmatch(text)
    if not match or max(int(match[1]), int(match[2])) > MAX_SIDE_PIXELS:
        raise StaticMapError(f"size is WIDTHxHEIGHT in pixels, as 640x480, each from 1 to {MAX_SIDE_PIXELS}.")
    return int(match[1]), int(match[2])


def _parse_format(text: str) -> str:
    if text not in TILE_FORMATS:
        raise StaticMapError(f"format is {' or '.join(TILE_FORMATS)}.")
    return text


def classify_address(address: str) -> Asked | None:
    """Returns the map that an address names with its arguments; without a key if they name none."""
    path, _, arguments = address.partition("?")
    if path != "/staticmap":
        return None
    try:
        return Asked(TRAFFIC_KIND, content_key=StaticMap.read(parse_qs(arguments, keep_blank_values=True)).content_key)
    except StaticMapError:
        return Asked(TRAFFIC_KIND)


def warm_static_map(counted_key: str, requests: float) -> Piece | None:
    """Returns the piece for a popular static map; None if clients would not get it."""
    picture = StaticMap.of_key(counted_key)
    found = [layers.layer_snapshot(slug) for slug in picture.layers] if picture else []
    painted = [
        layer for layer in found if layer and layer.upstream is None and picture and layer.has_zoom(picture.zoom)
    ]
    if picture is None or len(painted) < len(found):
        return None
    version = joint_version(painted)
    work = take_slowest_lane(static_map_work(picture, version))
    wanted = (WantedContent(picture.content_key, "", version),)
    kept_seconds = min(each.fresh_seconds for each in painted) + min(each.stale_seconds for each in painted)
    return Piece(work, wanted, TRAFFIC_KIND, requests=requests, kept_seconds=kept_seconds)


def find_painted_layer(slug: str) -> LayerView | None:
    """Returns the layer or None. Raises StaticMapError for one not painted here, and DatabaseError."""
    layer = layers.layer_snapshot(slug)
    if layer is not None and layer.upstream is not None:
        raise StaticMapError(f"The layer “{slug}” has tiles of another server; static maps show painted layers only.")
    return layer


def compose_scenes(picture: StaticMap, scenes: Sequence[AnyScene]) -> bytes:
    """Returns the image file: the scenes in their order, transparent where all of them are empty."""
    image = Image.new("RGBA", (picture.width, picture.height))
    corner_and_size = (side * SUPERSAMPLING for side in (picture.x, picture.y, picture.width, picture.height))
    window = Window(picture.zoom, *corner_and_size)
    for scene in scenes:
        drawn = painter.draw_window(scene, window, picture.zoom, 1)
        if drawn is not None:
            painted = painter.blend_samples(np.asarray(drawn), scene.style.palette)
            image.alpha_composite(painted.convert("RGBA"))
    return painter.encode_image(image, picture.format)


def render_static_map(picture: StaticMap) -> Mapping[str, contents.Prepared]:
    """Paints a picture from its layers' newest data; returns it by its content key. Does not store it."""
    try:
        layers, painted = zip(*(work.load_scene(slug) for slug in picture.layers), strict=True)
    except UnknownLayerError as error:
        raise errors.PreparationError("A layer no longer exists.", status=404) from error
    clients = [layer.client_seconds for layer in layers]
    prepared = contents.Prepared(
        body=compose_scenes(picture, painted),
        content_type=picture.content_type,
        fresh_seconds=min(layer.fresh_seconds for layer in layers),
        stale_seconds=min(layer.stale_seconds for layer in layers),
        client_seconds=None if None in clients else min(clients),
        version=joint_version(layers),
    )
    return {picture.content_key: prepared}


@responses.read_only
@database.answer_outages
def static_map(request: HttpRequest) -> HttpResponse:
    """`/staticmap?layers=A,B&center=LAT,LON&zoom=Z&size=WxH&format=F`"""
    try:
        picture = StaticMap.read(dict(request.GET.lists()))
        found = [find_painted_layer(slug) for slug in picture.layers]
    except StaticMapError as error:
        return responses.problem_response(400, str(error), cache_status="Tarry; fwd=bypass")
    for slug, layer in zip(picture.layers, found, strict=True):
        if layer is None or not layer.has_zoom(picture.zoom):
            return responses.not_found_response(f"There is no layer “{slug}” at zoom {picture.zoom}.")
    version = layers.joint_version(layer for layer in found if layer)
    work = static_map_work(picture, version)
    return deferral.serve_or_defer(request, picture.content_key, work, version=version, as_is=True)


def static_map_work(picture: StaticMap, version: int) -> retry_work.Work:
    """Returns the work of painting a picture from the present data of its layers."""
    place = (picture.zoom, picture.x, picture.y, picture.width, picture.height)
    return retry_work.Work(
        key=f"{picture.content_key}:{version}",
        kind=f"staticmap:{picture.painted.bit_length()}",  # pictures up to twice as large take about as long
        lane="paint.now",
        refresh_lane="paint.refresh",
        task="resources.paint_static_map",
        arguments=(",".join(picture.layers), *place, picture.format),
    )
