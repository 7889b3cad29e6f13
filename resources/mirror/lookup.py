"""Looks up URLs by digest, in Redis or in rows, and names the batches that go on when a URL has ended.

A look-up of the status costs one trip to Redis for a whole list, and one query for the rest.

The open items of a batch say which URLs it waits for: strangers report any number of URLs, so `state` has no key for
each.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self
from uuid import UUID

from django.conf import settings
from django.db import Error as DatabaseError
from django.db.models import QuerySet
from redis.exceptions import RedisError

from retry import stores

from .. import database
from ..caches import CacheFormat, cached_batch
from .models import BatchItem, Resource, UrlState

STATUS_SECONDS = 86_400
"""Writes keep the cached status correct; this bounds the errors after an outage of Redis during a write."""
WANTED_STATUS_SECONDS = 60
"""The same for a status that is about to change."""
MAX_DETAIL_CHARACTERS = 200
MAX_QUERY_ROWS = 10_000
"""Rows in one query: all of a list. SQLite takes 32,766 variables since version 3.32."""

_STATE_LETTERS = {UrlState.WANTED: "w", UrlState.STORED: "s", UrlState.FAILED: "f"}
_LETTER_STATES = {letter: state for state, letter in _STATE_LETTERS.items()}


@dataclass(frozen=True, slots=True)
class UrlStatus:
    """The status of a URL. `failure` and `detail` say why there is no content; `status` is the origin's answer.

    `due_at` is the row's, so that no cached status outlives that moment unnoticed. So is `expires_at`, of stored URLs.
    """

    state: UrlState
    blob_digest: str = ""
    failure: str = ""
    detail: str = ""
    status: int | None = None
    due_at: datetime | None = None
    expires_at: datetime | None = None

    @classmethod
    def of(cls, row: Resource) -> Self:
        detail = row.detail[:MAX_DETAIL_CHARACTERS]
        return cls(UrlState(row.state), row.blob_digest, row.failure, detail, row.status, row.due_at, row.expires_at)

    def write(self) -> bytes:
        if self.state is UrlState.STORED:  # as most are
            # The version before reads no such moments, and asks the database.
            expires = f"\n{_write_moment(self.expires_at)}" if self.expires_at else ""
            return f"s{self.blob_digest}\n{_write_moment(self.due_at) or '-'}{expires}".removesuffix("\n-").encode()
        status = "" if self.status is None else str(self.status)
        parts = (self.blob_digest, self.failure, status, _write_moment(self.due_at), self.detail)
        return (_STATE_LETTERS[self.state] + "\n".join(parts)).encode()

    @classmethod
    def read(cls, packed: bytes) -> "UrlStatus":
        """Parses the bytes of `write`. Raises ValueError for any others."""
        text = packed.decode()
        state = _LETTER_STATES.get(text[:1])
        if state is UrlState.STORED:
            blob_digest, due, expires, *_ = [*text[1:].split("\n"), "", ""]
            return cls(state, blob_digest, due_at=_read_moment(due), expires_at=_read_moment(expires))
        blob_digest, failure, status, due, detail = text[1:].split("\n", 4)
        if state is None:
            raise ValueError("no state")
        return cls(state, blob_digest, failure, detail, int(status) if status else None, _read_moment(due))


def _write_moment(at: datetime | None) -> str:
    """Writes a moment in whole Unix seconds, never an earlier one."""
    return "" if at is None else str(math.ceil(at.timestamp()))


def _read_moment(text: str) -> datetime | None:
    return datetime.fromtimestamp(int(text), UTC) if text.strip("-") else None


@cached_batch(
    CacheFormat(
        "mirror:seen",
        write=UrlStatus.write,
        read=UrlStatus.read,
        seconds=lambda seen: WANTED_STATUS_SECONDS if seen.state is UrlState.WANTED else STATUS_SECONDS,
        memory_seconds=lambda: settings.MIRROR_KNOWN_SECONDS,
        provisional=_STATE_LETTERS[UrlState.WANTED].encode(),
    ),
    lambda: str(settings.SEEN_URL),
    at_once=MAX_QUERY_ROWS,
)
def look_up_urls(url_digests: Sequence[str]) -> Mapping[str, UrlStatus]:
    """Returns the status of these URLs by digest, without unknown ones. Raises DatabaseError."""
    fields = ("state", "blob_digest", "failure", "detail", "status", "due_at", "expires_at")
    rows = Resource.objects.filter(pk__in=url_digests).values_list("pk", *fields)
    return {
        digest: UrlStatus(UrlState(state), blob_digest, failure, detail[:MAX_DETAIL_CHARACTERS], *rest)
        for digest, state, blob_digest, failure, detail, *rest in rows
    }


note_statuses = look_up_urls.note
note_new_statuses = look_up_urls.note_new
forget_statuses = look_up_urls.forget
"""Drops statuses that may be outdated. Other processes believe them for MIRROR_KNOWN_SECONDS."""


@contextmanager
def forget_around_change(url_digests: Sequence[str]) -> Iterator[None]:
    """Drops the statuses before and after a change of their rows: a process killed in between leaves no wrong one."""
    forget_statuses(url_digests)
    yield
    forget_statuses(url_digests)


UNSETTLED_BATCHES_KEY = "mirror:unsettled"
"""The Redis set of batches to settle, by name. Workers take them every two seconds: fetchers hand nothing to Celery."""
MAX_UNSETTLED_BATCHES = 10_000
"""Names in that set, about a megabyte. More are healed from their rows, later."""
DIGESTS_PER_QUERY = 500

BATCH_PREFIX = "batch:"

_log = logging.getLogger("tarry.mirroring")


def batch_name(batch_id: UUID) -> str:
    """Returns the name of a batch in that set."""
    return f"{BATCH_PREFIX}{batch_id}"


def resume_batches(url_digests: Iterable[str]) -> None:
    """Has the batches settled that wait for these URLs, whose rows say that they have ended. Never fails."""
    try:
        waiting = {
            batch_id
            for some in database.split_portions(url_digests, DIGESTS_PER_QUERY)
            for batch_id in _open_items(some).values_list("batch_id", flat=True)
        }
        client = stores.fast_client("state")
        if waiting and client.scard(UNSETTLED_BATCHES_KEY) < MAX_UNSETTLED_BATCHES:
            client.sadd(UNSETTLED_BATCHES_KEY, *map(batch_name, waiting))
    except (DatabaseError, RedisError) as error:  # a later look at the rows of the batches finds them
        _log.warning("lists do not go on at once", extra={"error": str(error)})


def _open_items(url_digests: Sequence[str]) -> QuerySet[BatchItem]:
    return BatchItem.objects.filter(url_digest__in=url_digests, step="").order_by()
