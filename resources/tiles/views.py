"""Tiles and TileJSON over HTTP. Paints nothing: serves, defers, or answers that there is nothing."""

import time

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import set_response_etag

from resources import outages
from retry import conf, deferring, headers, methods, responses, serving

from . import changes, grid, layers, preparing, tilejson, works
from .layers import LayerView
from .tile import Tile

NOT_FOUND = "There is no such tile."

STALE_FEED_SECONDS = 10
"""While one request renews what the front has, all others get that: nobody waits, and main meets no crowd."""


@methods.read_only
@outages.told
def tile(request: HttpRequest, address: str) -> HttpResponse:
    """`/tiles/<layer>/<z>/<x>/<y>[@2x].<png|webp>`"""
    wanted = Tile.parse(address)
    if wanted is None:
        return responses.not_found(NOT_FOUND)
    layer = layers.layer_snapshot(wanted.layer)
    if layer is None or not layer.has_zoom(wanted.z) or not layer.has_scale(wanted.scale):
        return responses.not_found(NOT_FOUND)
    if not grid.touches(layer.bounds, wanted.z, wanted.x, wanted.y, layer.padding):
        return _empty(request, layer, wanted)
    version = layer.version_for(wanted.z, wanted.x, wanted.y)
    return serving.serve_or_defer(request, wanted.content_key, works.work_for(layer, wanted), version=version)


@methods.read_only
@outages.told
def describe(request: HttpRequest, slug: str, scale: int = 1) -> HttpResponse:
    """`/tiles/<layer>[@2x].json`"""
    layer = layers.layer_snapshot(slug)
    if layer is None or not layer.has_scale(scale):
        return responses.not_found("There is no such layer.")
    response = JsonResponse(tilejson.describe(layer, deferring.public_url(request), scale=scale))
    response["Cache-Control"] = "public, max-age=1, s-maxage=1"
    set_response_etag(response)
    for name, value in {**headers.CORS, "Cache-Status": "Tarry; fwd=bypass"}.items():
        response[name] = value
    return responses.conditional(request, response, None)


@methods.read_only
@outages.told
def tell_changes(request: HttpRequest) -> HttpResponse:
    """`/changes.json`: what of all layers changed a short while ago. The front asks once a second, for everybody."""
    response = JsonResponse(changes.feed(layers.layers_snapshot(), time.time()))
    response["Cache-Control"] = f"public, max-age=1, s-maxage=1, stale-while-revalidate={STALE_FEED_SECONDS}"
    set_response_etag(response)
    for name, value in {**headers.CORS, "Cache-Status": "Tarry; fwd=bypass"}.items():
        response[name] = value
    return responses.conditional(request, response, None)


def _empty(request: HttpRequest, layer: LayerView, wanted: Tile) -> HttpResponse:
    """The shared empty tile, kept no longer than content, for the layer's bounds may change."""
    return responses.constant(
        request,
        preparing.empty_tile(wanted),
        wanted.content_type,
        shared_seconds=conf.conf().HOT_SECONDS,
        client_seconds=layer.client_seconds,
    )
