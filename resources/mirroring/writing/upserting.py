"""Rows of URLs by what came of them, inserted or changed: a statement for all that are stored, and one for the others.

What nothing came of changes rows that are wanted, and no others: while it was asked for, a redirect of another URL may
have stored it, or an admin have decided. Looked at before, it could still change; so the statement says it.
"""

from collections.abc import Mapping, Sequence

from django.db import connection

from ..knowing.found import Found, Lost, Outcome
from ..knowing.lanes import lane_of_contents
from ..knowing.models import Blob, Lane, Resource, State
from ..knowing.seen import Seen

FOUND_FIELDS = (
    "state",
    "blob_digest",
    "step",
    "vouched_by",
    "moved_to",
    "etag",
    "last_modified",
    "fetched_at",
    "due_at",
    "attempts",
    "failure",
    "status",
    "detail",
    "lane",
)
LOST_FIELDS = ("state", "step", "fetched_at", "due_at", "attempts", "failure", "status", "detail")


def upsert_found(outcomes: Sequence[Found], blobs: Mapping[str, Blob]) -> None:
    """The last one of each URL. What the row says of its reports stays."""
    Resource.objects.bulk_create(
        _rows(outcomes, blobs), update_conflicts=True, unique_fields=["url_digest"], update_fields=FOUND_FIELDS
    )


def upsert_lost(outcomes: Sequence[Lost]) -> dict[str, Seen]:
    """Where there is no row, or it is wanted. The others, by the URLs' digests, as they stand."""
    rows = _rows(outcomes, {})
    if not rows:
        return {}
    fields = Resource._meta.concrete_fields
    values = [field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(_statement([str(field.column) for field in fields], len(rows)), values)
    lost = {row.pk: row for row in rows}
    standing = Resource.objects.in_bulk(list(lost))
    return {digest: Seen.of(row) for digest, row in standing.items() if _stands_otherwise(row, lost[digest])}


def _statement(columns: Sequence[str], rows: int) -> str:
    """Django has no condition for what bulk_create changes. As SQLite and PostgreSQL have it."""
    table = Resource._meta.db_table
    places = f"({', '.join(['%s'] * len(columns))})"
    changes = ", ".join([*(f"{field} = EXCLUDED.{field}" for field in LOST_FIELDS), _its_content(table)])
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([places] * rows)} "  # noqa: S608  names of our own
        f"ON CONFLICT (url_digest) DO UPDATE SET {changes} WHERE {table}.state = '{State.WANTED}'"
    )


def _its_content(table: str) -> str:
    """What was stored before stays while it is tried. What has failed has none, or the one that was taken down."""
    has_failed = f"EXCLUDED.state = '{State.FAILED}'"
    return f"blob_digest = CASE WHEN {has_failed} THEN EXCLUDED.blob_digest ELSE {table}.blob_digest END"


def _stands_otherwise(row: Resource, lost: Resource) -> bool:
    return row.state != lost.state or (row.state == State.STORED and row.blob_digest != lost.blob_digest)


def _rows(outcomes: Sequence[Outcome], blobs: Mapping[str, Blob]) -> list[Resource]:
    rows = {one.source.url_digest: _row(one, blobs.get(one.blob_digest)) for one in outcomes}
    return [rows[digest] for digest in sorted(rows)]


def _row(one: Outcome, blob: Blob | None) -> Resource:
    row = Resource(
        url_digest=one.source.url_digest,
        url=one.source.url,
        host=one.source.host,
        wanted_at=one.at,
        fetched_at=one.at,
        status=one.status,
        blob_digest=one.blob_digest,
        step=one.step,
        lane=lane_of_contents(blob.media_type, blob.size) if blob else Lane.FAST,
    )
    if isinstance(one, Lost):
        row.state, row.failure, row.detail = one.state, one.failure, one.detail[:500]
        row.attempts, row.due_at = one.attempts, one.due_at
    else:
        row.state = State.STORED
        row.moved_to, row.etag, row.last_modified = one.moved_to, one.etag, one.last_modified
        row.vouched_by = one.vouched_by
    return row
