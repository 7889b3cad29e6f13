"""`POST /api/layers/<slug>/speeds`: new speeds for segments of a layer."""

import logging
from datetime import datetime
from functools import partial

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from resources.tiles.keeping import touching, updating
from resources.tiles.keeping.updating import Update

from . import bodies, problems, tokens

router = Router(tags=["layers"])

_log = logging.getLogger("tarry.api")

_CSV = "segment_id,speed_kmh,free_flow_kmh,measured_at\na-12,31.5,50,2024-06-03T10:00:00Z\n"
_JSON_LINE = '{"segment_id": "a-12", "speed_kmh": 31.5, "free_flow_kmh": 50, "measured_at": "2024-06-03T10:00:00Z"}\n'
_BODY = {
    "requestBody": {
        "required": True,
        "description": "May be compressed: `Content-Encoding: gzip`.",
        "content": {
            "text/csv": {"schema": {"type": "string"}, "example": _CSV},
            "application/x-ndjson": {"schema": {"type": "string"}, "example": _JSON_LINE},
            "application/jsonl": {"schema": {"type": "string"}, "example": _JSON_LINE},
        },
    }
}


class SpeedsTaken(Schema):
    """What became of the rows."""

    layer: str
    rows: int
    changed: int = Field(description="Segments whose speeds are others than before.")
    unknown: int = Field(description="Rows of segments that the layer does not have.")
    unknown_examples: list[str]
    refused: int = Field(description="Rows that were measured more than five minutes in the future: not taken.")
    refused_examples: list[str]
    segments: int
    segments_with_speeds: int
    version: int
    measured_at: datetime | None
    detail: str


@router.post(
    "/layers/{slug}/speeds",
    auth=tokens.Token(),
    response=SpeedsTaken,
    operation_id="send_speeds",
    summary="Send speeds",
    openapi_extra={**_BODY, **problems.described(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)},
)
def send_speeds(
    request: HttpRequest,
    slug: str,
    replace: bool = Query(  # type: ignore[type-arg]  # ninja's own way to write it
        False, description="Segments without a row have no data then, instead of what they had."
    ),
) -> SpeedsTaken:
    """Gives the segments named in the rows new speeds; all others keep theirs.

    Rows of segments that the layer does not have are counted. A row that is wrong refuses all of them.
    Speeds that are as before make no new version. Sending the same again does no harm.
    """
    token = tokens.require_layer(request, slug)
    form = bodies.form_of(request)
    with bodies.on_disk(request) as path:
        read = partial(updating.read_upload, path, form)
        update = updating.update_speeds(slug, read, replace=replace, mark=touching.aside)
    taken = _taken(update)
    _log.info("speeds", extra={"token": token.name, "layer": slug, "rows": taken.rows, "changed": taken.changed})
    return taken


def _taken(update: Update) -> SpeedsTaken:
    layer, report = update.layer, update.report
    return SpeedsTaken(
        layer=layer.slug,
        rows=report.rows,
        changed=update.changed,
        unknown=report.unknown,
        unknown_examples=list(report.unknown_examples),
        refused=report.refused,
        refused_examples=list(report.refused_examples),
        segments=layer.segments,
        segments_with_speeds=layer.speeds_known,
        version=layer.version,
        measured_at=layer.measured_at,
        detail=updating.describe(update),
    )
