"""`/api/entries`: the change log, for programs that keep a copy of the entries."""

from hashlib import sha256
from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags, quote_etag
from ninja import Query, Schema
from pydantic import Field

from resources import problems
from resources.problems import Problem

from ..change_stream import NOW
from ..changes import log
from ..changes.log import PageBounds
from ..changes.positions import MAX_CURSOR_CHARACTERS, ChangeCursor, ChangeScope
from ..errors import CursorError, CursorExpiredError
from ..models import ALL_SLUG, Category
from ..pages import change_page, entry_filters
from . import read
from .read import MAX_ENTRIES_CHARACTERS, router
from .schemas import EntryDescribed

MAX_CHANGES = 500
SLUG = r"^[a-z0-9-]{0,100}$"


class EntryChanged(Schema):
    """An entry that is new or was changed: it replaces the one with this `entry_id`."""

    change: Literal["entry"] = "entry"
    entry_id: int = Field(description="Identifies the entry on this site, for ever.")
    feed_id: int = Field(description="Identifies its feed. An entry can come to another feed.")
    feed: str = Field(description="The feed's slug.")
    story: int = Field(
        description="The same for all entries of one story: the `entry_id` of the first. Alone: its own `entry_id`."
    )
    entry: EntryDescribed


class EntryRemoved(Schema):
    """An entry is gone."""

    change: Literal["entry_removed"] = "entry_removed"
    entry_id: int
    feed_id: int
    reason: str = Field(
        description="pruned: it left its feed long ago, or the feed has too many. filtered: a filter hides it now."
    )


class FeedRemoved(Schema):
    """A feed left this selection: all entries with its `feed_id` are gone."""

    change: Literal["feed_removed"] = "feed_removed"
    feed_id: int
    reason: str = Field(
        description="deleted, hidden, paused, category: it left the category; "
        "filtered: the category's filters have changed, and what they show of the feed is given anew."
    )


Change = Annotated[EntryChanged | EntryRemoved | FeedRemoved, Field(discriminator="change")]


class Changes(Schema):
    """Changes in the order in which they came here. Apply them one after the other, and keep `cursor` with them."""

    changes: list[Change]
    cursor: str = Field(description="Stands after these changes: the next value of `changed_since`.")
    has_more: bool = Field(description="Ask again at once: there are more. A page may be short, or empty, before them.")


CHANGED_SINCE = (
    "A `cursor` of an earlier answer with the same `feed` or `category`. Empty: everything, for a new copy. "
    f"`{NOW}`: nothing but a cursor, for what comes from now on."
)
OPTIONS: dict[str, Any] = {
    "auth": read.optional_token,
    "openapi_extra": {
        **problems.describe_problems(401, 404, 410, 422, 429, 503),
        "security": [{}, {"Token": []}],
    },
}
OPTIONS["openapi_extra"]["responses"][304] = {"description": "As with the ETag in `If-None-Match`."}


@router.get("/entries", response=Changes, summary="Sync entries by change", **OPTIONS)
def list_changes(
    request: HttpRequest,
    changed_since: Annotated[str, Query(max_length=MAX_CURSOR_CHARACTERS, description=CHANGED_SINCE)] = "",
    feed: Annotated[str, Query(pattern=SLUG, description="Only of the feed with this slug.")] = "",
    category: Annotated[
        str, Query(pattern=SLUG, description="Only of this category and those below it. Default: of all feeds.")
    ] = "",
    limit: Annotated[int, Field(ge=1, le=MAX_CHANGES)] = 100,
) -> HttpResponse:
    """Lists new, changed and removed entries in the order in which that happened here, whatever their dates.

    An entry is given once for all changes since the cursor, as it is now. 410 tells that the cursor is too old, or of
    another site: drop the copy, and begin a new one without a cursor.
    """
    scope = find_scope(request, feed, category)
    return _answer(request, write_changes(read_cursor(changed_since, scope), limit))


def find_scope(request: HttpRequest, feed: str, category: str) -> ChangeScope:
    """Finds the selection that a client names. Raises Problem."""
    if feed and not category:
        return ChangeScope("f", read.find_readable_feed(request, feed).pk)
    return find_combination(feed, category)


def find_combination(feed: str, category: str) -> ChangeScope:
    """Finds a category; that of all feeds by default. Raises Problem."""
    if feed and category:
        raise Problem(422, "Name a feed or a category, not both.")
    slug = category.replace("\0", "") or ALL_SLUG
    pk = Category.objects.filter(slug=slug).values_list("pk", flat=True).first()
    if pk is None:
        raise Problem(404, f"There is no category “{slug}”.")
    return ChangeScope("c", pk)


def read_cursor(written: str, scope: ChangeScope) -> ChangeCursor:
    """Reads the cursor that a client names, or makes one. Raises Problem."""
    try:
        if written in ("", NOW):
            return log.start_cursor(scope, at_head=written == NOW)
        return log.read_cursor(written, scope)
    except CursorExpiredError as error:
        raise Problem(410, str(error)) from error
    except CursorError as error:
        raise Problem(422, f"changed_since: {error}") from error


def write_changes(cursor: ChangeCursor, most: int) -> bytes:
    """Writes the page after a cursor as JSON. Raises Problem and DatabaseError."""
    try:
        page = log.select_changes(cursor, PageBounds(most, MAX_ENTRIES_CHARACTERS))
    except CursorExpiredError as error:
        raise Problem(410, str(error)) from error
    return change_page.write_json(change_page.describe_changes(entry_filters.narrow_page(page))).encode()


def _answer(request: HttpRequest, body: bytes) -> HttpResponse:
    """Answers 304 to a client that has the page."""
    etag = quote_etag(sha256(body).hexdigest()[:32])
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        return HttpResponseNotModified(headers={"ETag": etag})
    return HttpResponse(body, content_type="application/json; charset=utf-8", headers={"ETag": etag})
