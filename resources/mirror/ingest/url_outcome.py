"""The outcome of a URL: its value, its row, and the reason of a failure in words for the public.

Rows are upserted: one statement for all stored ones, and one for the others. An outcome without content changes
only rows that are wanted: meanwhile a redirect of another URL may have stored the row, or an admin may have
decided. The statement itself says so, since a row could change after a check.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from resources.fetch.http.messages import Failure

from .. import hosts
from ..hosts import choose_content_lane
from ..lookup import UrlStatus
from ..models import Blob, DedupeStep, Resource, UrlLane, UrlState
from ..storage import takedown


@dataclass(frozen=True, slots=True)
class SourceUrl:
    """A URL as it was requested, the digest of its canonical URL, and its host."""

    url_digest: str
    url: str
    host: str


@dataclass(frozen=True, slots=True)
class VouchedContent:
    """The keys of the validators by which an origin names a content: digest-like ones and opaque ones.

    `again`: the URL itself gave this content before, which proves nothing about others.
    """

    host: str
    digests: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    again: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return self.digests + self.opaque


@dataclass(frozen=True, slots=True)
class FoundContent:
    """The URL has this content.

    With `contents`, its bytes were downloaded: then the writer completes that row, and determines the step. Without,
    the blob of that digest is known, and `step` says how; `vouched_by` is the host whose word is the only evidence.
    """

    source: SourceUrl
    blob_digest: str
    at: datetime
    contents: Blob | None = None
    step: DedupeStep = DedupeStep.CONTENT
    status: int | None = None
    moved_to: str = ""
    etag: str = ""
    last_modified: str = ""
    vouched_by: str | None = None
    vouched: VouchedContent | None = None
    aliases: tuple[SourceUrl, ...] = ()


@dataclass(frozen=True, slots=True)
class NothingFound:
    """The URL gave nothing new: it has failed, or is tried again at `due_at`, or its stored content stays."""

    source: SourceUrl
    state: UrlState
    at: datetime
    failure: str
    detail: str
    status: int | None = None
    attempts: int = 0
    due_at: datetime | None = None
    blob_digest: str = ""
    step: str = ""


UrlOutcome = FoundContent | NothingFound


def taken_down_outcome(source: SourceUrl, blob_digest: str, at: datetime, status: int | None = None) -> NothingFound:
    failure, detail = takedown.TAKEN_DOWN_FAILURE, "its content was taken down"
    return NothingFound(
        source, UrlState.FAILED, at, failure, detail, status, blob_digest=blob_digest, step=DedupeStep.FAILED
    )


PUBLIC_REASONS: Mapping[str, str] = {
    Failure.OURS.value: "This site cannot reach the origin.",
    Failure.REFUSED.value: "This site does not fetch from this address.",
    hosts.BLOCKED_FAILURE: "This site mirrors nothing from that host.",
}
"""Texts for these failures that replace the rows' details, which may name addresses of a private network."""


def describe_failure(failure: str, detail: str) -> str:
    """Returns a sentence, or the origin's answer; empty for no failure."""
    return PUBLIC_REASONS.get(failure, detail)


LOST_FIELDS = ("state", "step", "fetched_at", "due_at", "attempts", "failure", "status", "detail")
FOUND_FIELDS = (*LOST_FIELDS, "blob_digest", "vouched_by", "moved_to", "etag", "last_modified", "lane")


def upsert_found(outcomes: Sequence[FoundContent], blobs: Mapping[str, Blob]) -> None:
    """Writes the last outcome of each URL. Fields about its reports stay."""
    Resource.objects.bulk_create(
        _outcome_rows(outcomes, blobs), update_conflicts=True, unique_fields=["url_digest"], update_fields=FOUND_FIELDS
    )


def upsert_lost(outcomes: Sequence[NothingFound]) -> dict[str, UrlStatus]:
    """Writes rows that are new or wanted. Returns the status of all others, by the URLs' digests."""
    rows = _outcome_rows(outcomes, {})
    if not rows:
        return {}
    fields = Resource._meta.concrete_fields
    values = [field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(_upsert_statement([str(field.column) for field in fields], len(rows)), values)
    lost = {row.pk: row for row in rows}
    stored = Resource.objects.in_bulk(list(lost))
    return {digest: UrlStatus.of(row) for digest, row in stored.items() if _differs_from_outcome(row, lost[digest])}


def _upsert_statement(columns: Sequence[str], rows: int) -> str:
    """Returns SQL for SQLite and PostgreSQL: Django has no condition for the rows that bulk_create changes."""
    table = Resource._meta.db_table
    places = f"({', '.join(['%s'] * len(columns))})"
    changes = ", ".join([*(f"{field} = EXCLUDED.{field}" for field in LOST_FIELDS), _content_assignment(table)])
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([places] * rows)} "  # noqa: S608  our own names
        f"ON CONFLICT (url_digest) DO UPDATE SET {changes} WHERE {table}.state = '{UrlState.WANTED}'"
    )


def _content_assignment(table: str) -> str:
    """Keeps the stored content of a URL that is tried. A failed one has none, or the digest that was taken down."""
    has_failed = f"EXCLUDED.state = '{UrlState.FAILED}'"
    return f"blob_digest = CASE WHEN {has_failed} THEN EXCLUDED.blob_digest ELSE {table}.blob_digest END"


def _differs_from_outcome(row: Resource, lost: Resource) -> bool:
    return row.state != lost.state or (row.state == UrlState.STORED and row.blob_digest != lost.blob_digest)


def _outcome_rows(outcomes: Sequence[UrlOutcome], blobs: Mapping[str, Blob]) -> list[Resource]:
    rows = {one.source.url_digest: _outcome_row(one, blobs.get(one.blob_digest)) for one in outcomes}
    return [rows[digest] for digest in sorted(rows)]


def _outcome_row(one: UrlOutcome, blob: Blob | None) -> Resource:
    row = Resource(
        url_digest=one.source.url_digest,
        url=one.source.url,
        host=one.source.host,
        wanted_at=one.at,
        fetched_at=one.at,
        status=one.status,
        blob_digest=one.blob_digest,
        step=one.step,
        lane=choose_content_lane(blob.media_type, blob.size) if blob else UrlLane.FAST,
    )
    if isinstance(one, NothingFound):
        row.state, row.failure, row.detail = one.state, one.failure, one.detail[:500]
        row.attempts, row.due_at = one.attempts, one.due_at
    else:
        row.state = UrlState.STORED
        row.moved_to, row.etag, row.last_modified = one.moved_to, one.etag, one.last_modified
        row.vouched_by = one.vouched_by
    return row
