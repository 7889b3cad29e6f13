"""Looks up URLs by digest, in Redis or in rows, and keeps the continuations of URLs in flight.

A look-up of the status costs one trip to Redis for a whole list, and one query for the rest.

Continuations name the work to resume when a URL settles. They stand in `state` beside its in-flight mark. The rows
of batches are the truth: a later look at the rows finds anything lost here. So their functions never raise; errors
are logged.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from django.conf import settings
from redis.exceptions import RedisError

from retry import scripts, stores
from retry.errors import StoreUnavailable
from retry.scripts import ScriptCall

from .. import database
from ..caches import CacheFormat, cached_batch
from .models import Resource, UrlState

STATUS_SECONDS = CONTINUATION_SECONDS = 86_400
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
    """The status of a URL. `failure` and `detail` say why there is no content; `status` is the origin's answer."""

    state: UrlState
    blob_digest: str = ""
    failure: str = ""
    detail: str = ""
    status: int | None = None

    @classmethod
    def of(cls, row: Resource) -> Self:
        return cls(UrlState(row.state), row.blob_digest, row.failure, row.detail[:MAX_DETAIL_CHARACTERS], row.status)

    def write(self) -> bytes:
        if self.state is UrlState.STORED:  # as most are
            return b"s" + self.blob_digest.encode()
        parts = (self.blob_digest, self.failure, "" if self.status is None else str(self.status), self.detail)
        return (_STATE_LETTERS[self.state] + "\n".join(parts)).encode()

    @classmethod
    def read(cls, packed: bytes) -> "UrlStatus":
        """Parses the bytes of `write`. Raises ValueError for any others."""
        text = packed.decode()
        state = _LETTER_STATES.get(text[:1])
        if state is UrlState.STORED:
            return cls(state, text[1:])
        blob_digest, failure, status, detail = text[1:].split("\n", 3)
        if state is None:
            raise ValueError("no state")
        return cls(state, blob_digest, failure, detail, int(status) if status else None)


@cached_batch(
    CacheFormat(
        "mirror:seen",
        write=UrlStatus.write,
        read=UrlStatus.read,
        seconds=lambda seen: WANTED_STATUS_SECONDS if seen.state is UrlState.WANTED else STATUS_SECONDS,
        memory_seconds=lambda: settings.MIRROR_KNOWN_SECONDS,
    ),
    lambda: str(settings.SEEN_URL),
    at_once=MAX_QUERY_ROWS,
)
def look_up_urls(url_digests: Sequence[str]) -> Mapping[str, UrlStatus]:
    """Returns the status of these URLs by digest, without unknown ones. Raises DatabaseError."""
    fields = ("state", "blob_digest", "failure", "detail", "status")
    rows = Resource.objects.filter(pk__in=url_digests).values_list("pk", *fields)
    return {
        digest: UrlStatus(UrlState(state), blob_digest, failure, detail[:MAX_DETAIL_CHARACTERS], status)
        for digest, state, blob_digest, failure, detail, status in rows
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


RESUMED_NAMES_KEY = "mirror:unsettled"
"""The Redis set of names to resume. Workers take them every two seconds: fetchers hand nothing to Celery."""
URLS_PER_CALL = 500
"""In one call of the script."""

scripts.register_scripts(Path(__file__).parent / "lua", "mirror")

_log = logging.getLogger("tarry.mirroring")


def leave_continuation(url_digests: Iterable[str], name: str) -> None:
    """Has `name` resumed when one of these URLs settles. Check the rows after this: one may just have settled."""
    try:
        with stores.fast_client("state").pipeline(transaction=False) as pipeline:
            for digest in url_digests:
                pipeline.sadd(_waiting_names_key(digest), name)
                pipeline.expire(_waiting_names_key(digest), CONTINUATION_SECONDS)
            pipeline.execute()
    except RedisError as error:
        _log.warning("continuations are not left", extra={"continuation": name, "error": str(error)})


def resume_continuations(url_digests: Iterable[str]) -> None:
    """Resumes the continuations of these URLs, whose rows say that they have settled."""
    portions = database.split_portions(map(_waiting_names_key, url_digests), URLS_PER_CALL)
    calls = [ScriptCall("state", "mirror.resume", [RESUMED_NAMES_KEY, *some]) for some in portions]
    try:
        stores.execute_all_patiently("state", calls)
    except StoreUnavailable as error:
        _log.warning("continuations do not go on", extra={"error": str(error)})


def _waiting_names_key(url_digest: str) -> str:
    return f"mirror:after:{url_digest}"
