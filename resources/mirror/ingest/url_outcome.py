"""The outcome of a URL: its value, its row, and the reason of a failure in words for the public.

Rows are upserted: one statement for all stored ones, and one for the others. An outcome without content changes
only rows that are wanted: meanwhile a redirect of another URL may have stored the row, or an admin may have
decided. No outcome changes a row that a later claim has written: its fetcher was frozen meanwhile, for however long.
The statement itself says so, since a row could change after a check.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from django.db import connection

from resources import database
from resources.database import MAX_CLOCK_LEAD
from resources.fetch.http.messages import Failure

from .. import hosts
from ..hosts import choose_content_lane
from ..lookup import UrlStatus
from ..models import Blob, DedupeStep, Resource, UrlLane, UrlState
from ..storage import takedown
from . import due_times


@dataclass(frozen=True, slots=True)
class SourceUrl:
    """A URL as it was requested, the digest of its canonical URL, and its host.

    `token` is that of the claim that fetches it; 0 without one.
    """

    url_digest: str
    url: str
    host: str
    token: int = 0


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
    due_at: datetime | None = None
    """From when on its origin may have another content."""


@dataclass(frozen=True, slots=True)
class NothingFound:
    """The URL gave nothing new: it has failed, or is tried again, or its stored content stays.

    `due_at`: when it is tried again by itself, if it is wanted; else from when on a request has it tried again.
    `rounds` counts the failed rounds in a row, this one included; a round has MIRROR_ATTEMPTS attempts.
    """

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
    rounds: int = 0


UrlOutcome = FoundContent | NothingFound


def taken_down_outcome(source: SourceUrl, blob_digest: str, at: datetime, status: int | None = None) -> NothingFound:
    failure, detail = takedown.TAKEN_DOWN_FAILURE, "its content was taken down"
    return NothingFound(
        source, UrlState.FAILED, at, failure, detail, status, blob_digest=blob_digest, step=DedupeStep.FAILED
    )


def give_up_outcome(
    source: SourceUrl,
    row: Resource | None,
    failure: str,
    detail: str,
    at: datetime,
    *,
    status: int | None = None,
    wait_seconds: float = 0,
) -> NothingFound:
    """Returns the end of a round without content: the URL has failed, or its stored content stays."""
    digest, rounds, attempts = (row.blob_digest, row.rounds, row.attempts) if row else ("", 0, 0)
    due_at = due_times.next_try_at(failure, status, rounds + 1, at, wait_seconds=wait_seconds)
    failed = NothingFound(
        source,
        UrlState.FAILED,
        at,
        failure,
        detail,
        status,
        attempts + 1,
        due_at,
        step=DedupeStep.FAILED,
        rounds=rounds + 1,
    )
    if row is None or not digest:
        return failed
    due_at = due_at or at + due_times.LONGEST_FRESHNESS
    return replace(failed, state=UrlState.STORED, blob_digest=digest, step=row.step, due_at=due_at)


PUBLIC_REASONS: Mapping[str, str] = {
    Failure.OURS.value: "This site cannot reach the origin.",
    Failure.REFUSED.value: "This site does not fetch from this address.",
    hosts.BLOCKED_FAILURE: "This site mirrors nothing from that host.",
}
"""Texts for these failures that replace the rows' details, which may name addresses of a private network."""


def describe_failure(failure: str, detail: str) -> str:
    """Returns a sentence, or the origin's answer; empty for no failure."""
    return PUBLIC_REASONS.get(failure, detail)


LOST_FIELDS = ("state", "step", "fetched_at", "due_at", "attempts", "rounds", "failure", "status", "detail")
FOUND_FIELDS = (*LOST_FIELDS, "blob_digest", "vouched_by", "moved_to", "etag", "last_modified", "lane")


MAX_ROWS_PER_STATEMENT = 500
"""SQLite takes 32,766 variables in a statement."""

_TABLE = Resource._meta.db_table


def upsert_found(outcomes: Sequence[FoundContent], blobs: Mapping[str, Blob]) -> dict[str, UrlStatus]:
    """Writes the last outcome of each URL. Fields about its reports stay.

    Returns the status of URLs with a later outcome, by digest.
    """
    rows = _outcome_rows(outcomes, blobs)
    written = _upsert_rows(rows, [f"{field} = EXCLUDED.{field}" for field in FOUND_FIELDS], _FENCE)
    overtaken = [row.pk for row in rows if row.pk not in written]
    stored = Resource.objects.in_bulk(overtaken) if overtaken else {}
    return {digest: UrlStatus.of(row) for digest, row in stored.items()}


def upsert_lost(outcomes: Sequence[NothingFound]) -> dict[str, UrlStatus]:
    """Writes rows that are new or wanted. Returns the status of all others, by the URLs' digests."""
    rows = _outcome_rows(outcomes, {})
    if not rows:
        return {}
    kept = [f"{field} = EXCLUDED.{field}" for field in LOST_FIELDS if field not in ("state", "step")]
    changes = [*kept, *_END_ASSIGNMENTS, _CONTENT_ASSIGNMENT]
    _upsert_rows(rows, changes, f"{_TABLE}.state = '{UrlState.WANTED}' AND ({_FENCE})")
    lost = {row.pk: row for row in rows}
    stored = Resource.objects.in_bulk(list(lost))
    return {digest: UrlStatus.of(row) for digest, row in stored.items() if _differs_from_outcome(row, lost[digest])}


_FENCE = f"EXCLUDED.token = 0 OR {_TABLE}.token <= EXCLUDED.token OR {_TABLE}.token > %s"
"""An outcome without a claim changes any row. Tokens are microseconds: one from the future, of a clock that was ahead,
fences off nothing.
"""

_TOKEN_ASSIGNMENT = f"token = CASE WHEN EXCLUDED.token = 0 THEN {_TABLE}.token ELSE EXCLUDED.token END"

_CONTENT_ASSIGNMENT = (
    f"blob_digest = CASE WHEN EXCLUDED.state = '{UrlState.FAILED}' THEN EXCLUDED.blob_digest "
    f"ELSE {_TABLE}.blob_digest END"
)
"""Keeps the stored content of a URL that is tried. A failed one has none, or the digest that was taken down."""

_END_ASSIGNMENTS = tuple(
    f"{field} = CASE WHEN EXCLUDED.state = '{UrlState.STORED}' AND {_TABLE}.blob_digest = '' THEN '{failed}' "
    f"ELSE EXCLUDED.{field} END"
    for field, failed in (("state", UrlState.FAILED), ("step", DedupeStep.FAILED))
)
"""A URL whose stored content was lost meanwhile has failed."""


def _upsert_rows(rows: Sequence[Resource], changes: Sequence[str], condition: str) -> set[str]:
    """Inserts rows, and changes existing ones that meet the condition. Returns the keys of those that it wrote."""
    fields, written = Resource._meta.concrete_fields, set[str]()
    names = [field.attname for field in fields]
    latest = round((datetime.now(UTC) + MAX_CLOCK_LEAD).timestamp() * 1_000_000)
    for some in database.split_portions(rows, MAX_ROWS_PER_STATEMENT):
        statement = _upsert_statement([str(field.column) for field in fields], len(some), changes, condition)
        values = database.plain_values(value for row in some for value in map(row.__dict__.__getitem__, names))
        with connection.cursor() as cursor:
            cursor.execute(statement, [*values, latest])
            written.update(key for (key,) in cursor.fetchall())
    return written


def _upsert_statement(columns: Sequence[str], rows: int, changes: Sequence[str], condition: str) -> str:
    """Returns SQL for SQLite and PostgreSQL: Django has no condition for the rows that bulk_create changes."""
    places = f"({', '.join(['%s'] * len(columns))})"
    return (
        f"INSERT INTO {_TABLE} ({', '.join(columns)}) VALUES {', '.join([places] * rows)} "  # noqa: S608  our own names
        f"ON CONFLICT (url_digest) DO UPDATE SET {', '.join([*changes, _TOKEN_ASSIGNMENT])} WHERE {condition} "
        "RETURNING url_digest"
    )


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
        due_at=one.due_at,
        status=one.status,
        blob_digest=one.blob_digest,
        step=one.step,
        lane=choose_content_lane(blob.media_type, blob.size) if blob else UrlLane.FAST,
        token=one.source.token,
    )
    if isinstance(one, NothingFound):
        row.state, row.failure, row.detail = one.state, one.failure, one.detail[:500]
        row.attempts, row.rounds = one.attempts, one.rounds
    else:
        row.state = UrlState.STORED
        row.moved_to, row.etag, row.last_modified = one.moved_to, one.etag, one.last_modified
        row.vouched_by = one.vouched_by
    return row
