"""`/api/layers`: what layers there are, and making their tiles stale."""

import logging
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema
from pydantic import ConfigDict, Field

from resources.tiles import layers
from resources.tiles.errors import UnknownLayerError
from resources.tiles.expirations import Part
from resources.tiles.keeping import expiring
from resources.tiles.layers import LayerView
from retry import deferring, headers

from . import problems, tokens

router = Router(tags=["layers"])

LONDON = [-0.51, 51.28, 0.33, 51.69]

_log = logging.getLogger("tarry.api")


class LayerDescribed(Schema):
    """A layer as it stood at most half a second ago."""

    slug: str
    title: str
    kind: str
    min_zoom: int
    max_zoom: int
    bounds: list[float] = Field(
        description="West, south, east, north in degrees. With west > east they cross the antimeridian."
    )
    version: int
    segments: int
    segments_with_speeds: int
    measured_at: datetime | None
    tilejson: str


class Layers(Schema):
    layers: list[LayerDescribed]


class ToExpire(Schema):
    """Which tiles become stale. What is left out stands for all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bbox: list[float] | None = Field(
        default=None, description="West, south, east, north in degrees.", examples=[LONDON]
    )
    min_zoom: int | None = Field(default=None, examples=[8])
    max_zoom: int | None = Field(default=None, examples=[14])


class Expired(Schema):
    """The layer's version now: tiles of the part are stale below it."""

    layer: str
    version: int


@router.get(
    "/layers",
    response=Layers,
    operation_id="list_layers",
    summary="List layers",
    openapi_extra=problems.described(503),
)
def list_layers(request: HttpRequest, response: HttpResponse) -> Layers:
    """All layers that are switched on, in the order of their slugs."""
    _allow_others(response)
    return Layers(layers=[_described(view, _site(request)) for view in layers.layers_snapshot()])


@router.get(
    "/layers/{slug}",
    response=LayerDescribed,
    operation_id="describe_layer",
    summary="Describe a layer",
    openapi_extra=problems.described(404, 503),
)
def describe_layer(request: HttpRequest, response: HttpResponse, slug: str) -> LayerDescribed:
    """One layer that is switched on."""
    view = layers.layer_snapshot(slug)
    if view is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    _allow_others(response)
    return _described(view, _site(request))


@router.post(
    "/layers/{slug}/expire",
    auth=tokens.Token(),
    response=Expired,
    operation_id="expire_layer",
    summary="Make tiles stale",
    openapi_extra=problems.described(400, 401, 403, 404, 413, 422, 429, 503),
)
def expire_layer(request: HttpRequest, slug: str, part: ToExpire | None = None) -> Expired:
    """Makes tiles stale, all of the layer's or those of a box and of zooms.

    Each is served once more while it is painted anew.
    """
    token = tokens.require_layer(request, slug)
    named = part or ToExpire()
    layer = expiring.expire(slug, Part.of(named.bbox, named.min_zoom, named.max_zoom))
    _log.info("expired", extra={"token": token.name, "layer": slug})
    return Expired(layer=slug, version=layer.version)


def _described(view: LayerView, site: str) -> LayerDescribed:
    return LayerDescribed(
        slug=view.slug,
        title=view.title,
        kind=view.kind,
        min_zoom=view.min_zoom,
        max_zoom=view.max_zoom,
        bounds=view.bounds.as_list(),
        version=view.version,
        segments=view.segments,
        segments_with_speeds=view.speeds_known,
        measured_at=view.measured_at,
        tilejson=f"{site}/tiles/{view.slug}.json",
    )


def _site(request: HttpRequest) -> str:
    return deferring.public_url(request)


def _allow_others(response: HttpResponse) -> None:
    """Lets pages of other sites read what everybody may know."""
    for name, value in headers.CORS.items():
        response[name] = value
