"""Tiles, TileJSON and the change feed over HTTP. Paints nothing: serves or defers.

TileJSON 3.0.0: https://github.com/mapbox/tilejson-spec/tree/master/3.0.0

The change feed lists recent changes of each layer for open pages. It stays small: many tiles are given more
coarsely, and a client that has not polled for longer has to look at all of the layer again.
"""

import time
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import set_response_etag

from retry import conf, deferral, headers, responses

from .. import database
from . import grid, grid_arrays, layers, styles, work
from .layers import LayerView
from .tile_address import Tile
from .tile_marks import TouchedTiles

DEGREE_DIGITS = 7
"""Digits of a degree: about a centimetre."""


def build_tilejson(layer: LayerView, site: str, *, scale: int = 1) -> dict[str, Any]:
    """Builds the description that map libraries read; `site` is the address of this site without a path.

    `scale` 2 is for dense screens: the same tiles with twice the pixels.
    TileJSON's bounds must not cross the antimeridian: those that do are given as all longitudes.
    `classes`, `note` and `page` are ours: the legend's entries with their colours, the remark on the
    data, and the address of the layer's page. The specification allows additional keys.
    """
    west, south, east, north = (round(degrees, DEGREE_DIGITS) for degrees in layer.bounds.as_list())
    classes = styles.layer_legend(layer.kind, layer.style)
    bounds = [-180.0, south, 180.0, north] if layer.bounds.crosses_antimeridian else [west, south, east, north]
    return {
        "tilejson": "3.0.0",
        "name": layer.title,
        "description": layer.note,
        "attribution": layer.attribution,
        "scheme": "xyz",
        "tiles": [f"{site}/tiles/{layer.slug}/{{z}}/{{x}}/{{y}}{'@2x' if scale == 2 else ''}.png"],
        "minzoom": layer.min_zoom,
        "maxzoom": layer.max_zoom,
        "bounds": bounds,
        "version": f"1.{layer.version}.0",
        "vector_layers": [],
        "legend": ", ".join(entry["label"] for entry in classes),
        "classes": classes,
        "note": layer.note,
        "page": f"{site}/layers/{layer.slug}/",
    }


FEED_SECONDS = 30.0
MAX_FEED_CHANGES = 8
"""Of more changes, some are merged into one with the version of the last of them."""

MAX_FEED_TILES = 400
"""Tiles listed for one layer: about five kilobytes."""


def build_change_feed(layers: Iterable[LayerView], now: float) -> dict[str, Any]:
    """Returns each layer's version and its changes since an earlier version, as of now (Unix seconds)."""
    return {"layers": {layer.slug: _describe_layer_changes(layer, now) for layer in layers}}


def _describe_layer_changes(layer: LayerView, now: float) -> dict[str, Any]:
    """Before `since` anything may have changed. Only changes of data are listed: others have no tiles."""
    since = max(
        layer.data_version, int((now - FEED_SECONDS) * 1_000_000), *(each.version for each in layer.expirations)
    )
    versions = [version for version in layer.marks.versions() if version > since]
    listed = versions[:: min(-1, len(versions) // -MAX_FEED_CHANGES)][::-1]
    most = MAX_FEED_TILES // max(1, len(listed))
    changes = [
        _describe_change(last, layer.marks.between(after, last).at_most(most))
        for after, last in pairwise([since, *listed])
    ]
    return {"version": layer.version, "since": since, "changes": changes}


def _describe_change(version: int, touched: TouchedTiles) -> dict[str, Any]:
    """Lists columns and rows of the tiles in turn, by zoom; `below` are tiles of the last zoom, for all deeper ones."""
    zooms = {str(zoom): _flat_places(keys) for zoom, keys in enumerate(touched.zooms) if len(keys)}
    return {"version": version, "deepest": touched.deepest, "zooms": zooms, "below": _flat_places(touched.below)}


def _flat_places(keys: grid_arrays.TileKeys) -> list[int]:
    return [int(number) for place in zip(*grid_arrays.key_places(keys), strict=True) for number in place]


TILE_NOT_FOUND = "There is no such tile."

STALE_FEED_SECONDS = 10
"""While one request renews the front's copy, all others get that copy: no client waits, and main meets no herd."""


@responses.read_only
@database.answer_outages
def serve_tile(request: HttpRequest, address: str) -> HttpResponse:
    """`/tiles/<layer>/<z>/<x>/<y>[@2x].<format>`"""
    wanted = Tile.parse(address)
    if wanted is None:
        return responses.not_found_response(TILE_NOT_FOUND)
    layer = layers.layer_snapshot(wanted.layer)
    if layer is None or not layer.has_zoom(wanted.z) or not layer.has_scale(wanted.scale):
        return responses.not_found_response(TILE_NOT_FOUND)
    if not grid.bounds_touch_tile(layer.bounds, wanted.z, wanted.x, wanted.y, layer.padding):
        return responses.constant_response(  # kept no longer than content, for the layer's bounds may change
            request,
            work.empty_tile(wanted),
            wanted.content_type,
            shared_seconds=conf.conf().HOT_SECONDS,
            client_seconds=layer.client_seconds,
        )
    version = layer.version_for(wanted.z, wanted.x, wanted.y)
    tile_work = work.tile_work(layer, wanted)
    return deferral.serve_or_defer(request, wanted.content_key, tile_work, version=version, as_is=True)


@responses.read_only
@database.answer_outages
def serve_tilejson(request: HttpRequest, slug: str, scale: int = 1) -> HttpResponse:
    """`/tiles/<layer>[@2x].json`"""
    layer = layers.layer_snapshot(slug)
    if layer is None or not layer.has_scale(scale):
        return responses.not_found_response("There is no such layer.")
    response = JsonResponse(build_tilejson(layer, deferral.public_url(request), scale=scale))
    return _serve_json(request, response, "public, max-age=1, s-maxage=1")


@responses.read_only
@database.answer_outages
def serve_changes(request: HttpRequest) -> HttpResponse:
    """`/changes.json`: recent changes of all layers. The front asks once a second, for all clients."""
    response = JsonResponse(build_change_feed(layers.layers_snapshot(), time.time()))
    caching = f"public, max-age=1, s-maxage=1, stale-while-revalidate={STALE_FEED_SECONDS}"
    return _serve_json(request, response, caching)


def _serve_json(request: HttpRequest, response: JsonResponse, caching: str) -> HttpResponse:
    """Serves JSON made for this request, to pages of any site."""
    set_response_etag(response)
    fields = {**headers.CORS_HEADERS, "Cache-Control": caching, "Cache-Status": "Tarry; fwd=bypass"}
    for name, value in fields.items():
        response[name] = value
    return responses.conditional_response(request, response, None)
