"""`/api/entries/stream` where no waiting instance runs: one page as an event, after which clients come again."""

from typing import Annotated

from django.http import HttpRequest, HttpResponse
from ninja import Query

from resources import problems
from retry.streams import EVENT_FIELDS, write_beginning

from .. import change_stream
from ..change_stream import MAX_STREAMED_CHANGES, NOW
from ..changes.positions import MAX_CURSOR_CHARACTERS
from . import sync
from .read import OPEN_TO_ALL, router
from .sync import SLUG

_EVENTS = {200: {"description": "Events.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}}
_STATUSES = problems.describe_problems(404, 410, 422, 503)["responses"]
_OPTIONS = {**OPEN_TO_ALL, "openapi_extra": {"responses": {**_EVENTS, **_STATUSES}}}


@router.get("/entries/stream", summary="Stream changes of entries", **_OPTIONS)
def stream_changes(
    request: HttpRequest,
    changed_since: Annotated[
        str, Query(max_length=MAX_CURSOR_CHARACTERS, description=f"{sync.CHANGED_SINCE} Default here: `{NOW}`.")
    ] = "",
    feed: Annotated[str, Query(pattern=SLUG, description="Only of the feed with this slug.")] = "",
    category: Annotated[str, Query(pattern=SLUG, description="Only of this category and those below it.")] = "",
) -> HttpResponse:
    """Sends changes as they come, as server-sent events: `event: changes`, with the JSON of `GET /api/entries` as
    `data` and its cursor as `id`. `Last-Event-ID` goes before `changed_since`. Comments keep the connection alive.
    """
    scope = sync.find_scope(request, feed, category)
    cursor = sync.read_cursor(request.headers.get("Last-Event-ID") or changed_since or NOW, scope)
    body = sync.write_changes(cursor, MAX_STREAMED_CHANGES)
    text = write_beginning(str(cursor)) + change_stream.write_event(body, {}, "").text
    return HttpResponse(text, headers=EVENT_FIELDS)
