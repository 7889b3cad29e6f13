"""`/api/layers`: lists and describes layers, makes their tiles stale, and takes new speeds for segments."""

import logging
from datetime import datetime
from functools import partial

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Schema
from pydantic import ConfigDict, Field

from retry import deferral, headers

from .. import problems
from ..tiles import layers, speed_updates, work
from ..tiles.errors import UnknownLayerError
from ..tiles.layers import LayerView
from ..tiles.speed_updates import SpeedsUpdate
from ..tiles.staleness import LayerPart
from ..tokens import auth
from . import bodies

router = Router(tags=["layers"])

LONDON_BBOX = [-0.51, 51.28, 0.33, 51.69]

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
    upstream_in_flight: int | None = Field(
        description="Requests in flight at another server of tiles that is the operator's own; null for all others."
    )
    tilejson: str


class Layers(Schema):
    layers: list[LayerDescribed]


class ToExpire(Schema):
    """The tiles that become stale. An omitted member stands for all."""

    model_config = ConfigDict(extra="forbid", strict=True)

    bbox: list[float] | None = Field(
        default=None, description="West, south, east, north in degrees.", examples=[LONDON_BBOX]
    )
    min_zoom: int | None = Field(default=None, examples=[8])
    max_zoom: int | None = Field(default=None, examples=[14])


class Expired(Schema):
    """The layer's version now: tiles of the part are stale below it."""

    layer: str
    version: int


@router.get("/layers", response=Layers, summary="List layers", openapi_extra=problems.describe_problems(503))
def list_layers(request: HttpRequest, response: HttpResponse) -> Layers:
    """All layers that are switched on, in the order of their slugs."""
    _allow_other_origins(response)
    return Layers(layers=[_describe_view(view, request) for view in layers.layers_snapshot()])


@router.get(
    "/layers/{slug}",
    response=LayerDescribed,
    summary="Describe a layer",
    openapi_extra=problems.describe_problems(404, 503),
)
def describe_layer(request: HttpRequest, response: HttpResponse, slug: str) -> LayerDescribed:
    """One layer that is switched on."""
    view = layers.layer_snapshot(slug)
    if view is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    _allow_other_origins(response)
    return _describe_view(view, request)


@router.post(
    "/layers/{slug}/expire",
    auth=auth.Token(),
    response=Expired,
    summary="Make tiles stale",
    openapi_extra=problems.describe_problems(400, 401, 403, 404, 413, 422, 429, 503),
)
def expire_layer(request: HttpRequest, slug: str, part: ToExpire | None = None) -> Expired:
    """Makes tiles stale, all of the layer's or those of a box and of zooms.

    Each is served once more while it is painted anew.
    """
    token = auth.require_layer(request, slug)
    named = part or ToExpire()
    layer = work.expire_layer(slug, LayerPart.of(named.bbox, named.min_zoom, named.max_zoom))
    _log.info("expired", extra={"token": token.name, "layer": slug})
    return Expired(layer=slug, version=layer.version)


def _describe_view(view: LayerView, request: HttpRequest) -> LayerDescribed:
    return bodies.describe(
        view,
        LayerDescribed,
        bounds=view.bounds.as_list(),
        segments_with_speeds=view.speeds_known,
        tilejson=f"{deferral.public_url(request)}/tiles/{view.slug}.json",
    )


def _allow_other_origins(response: HttpResponse) -> None:
    """Lets pages of other sites read public facts."""
    for name, value in headers.CORS_HEADERS.items():
        response[name] = value


_CSV_EXAMPLE = "segment_id,speed_kmh,free_flow_kmh,measured_at\na-12,31.5,50,2024-06-03T10:00:00Z\n"
_JSON_LINE_EXAMPLE = (
    '{"segment_id": "a-12", "speed_kmh": 31.5, "free_flow_kmh": 50, "measured_at": "2024-06-03T10:00:00Z"}\n'
)
_SPEEDS_BODY = {
    "requestBody": {
        "required": True,
        "description": "May be compressed: `Content-Encoding: gzip`.",
        "content": {
            kind: {"schema": {"type": "string"}, "example": _CSV_EXAMPLE if form == "csv" else _JSON_LINE_EXAMPLE}
            for kind, form in bodies.SPEED_FORMS.items()
        },
    }
}


class SpeedsTaken(Schema):
    """The result of the upload."""

    layer: str
    rows: int
    changed: int = Field(description="Segments whose speeds changed.")
    unknown: int = Field(description="Rows of segments that the layer does not have.")
    unknown_examples: list[str]
    refused: int = Field(description="Rows measured more than five minutes in the future: ignored.")
    refused_examples: list[str]
    segments: int
    segments_with_speeds: int
    version: int
    measured_at: datetime | None
    detail: str


@router.post(
    "/layers/{slug}/speeds",
    auth=auth.Token(),
    response=SpeedsTaken,
    summary="Send speeds",
    openapi_extra={**_SPEEDS_BODY, **problems.describe_problems(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)},
)
def send_speeds(
    request: HttpRequest,
    slug: str,
    replace: bool = Query(  # type: ignore[type-arg]  # ninja's own way to write it
        False, description="Segments without a row lose their data."
    ),
) -> SpeedsTaken:
    """Gives the segments named in the rows new speeds; all others keep theirs.

    Rows of segments that the layer does not have are counted. A row that is wrong refuses all of them.
    Speeds that are as before make no new version. Sending the same again does no harm.
    """
    token = auth.require_layer(request, slug)
    form = bodies.speed_form(request)
    with bodies.body_on_disk(request) as path:
        read = partial(speed_updates.read_upload, path, form)
        update = speed_updates.update_speeds(slug, read, replace=replace, in_child=True)
    taken = _speeds_taken(update)
    _log.info("speeds", extra={"token": token.name, "layer": slug, "rows": taken.rows, "changed": taken.changed})
    return taken


def _speeds_taken(update: SpeedsUpdate) -> SpeedsTaken:
    layer = update.layer
    return bodies.describe(
        update.report,
        SpeedsTaken,
        layer=layer.slug,
        changed=update.changed,
        segments=layer.segments,
        segments_with_speeds=layer.speeds_known,
        version=layer.version,
        measured_at=layer.measured_at,
        detail=speed_updates.describe_update(update),
    )
