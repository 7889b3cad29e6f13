"""What is known of URLs, by their digests: one trip to Redis for a whole list, one query for the rest."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from django.conf import settings

from resources.cached_batch import Kept, cached_batch

from .. import conf
from .models import Resource, State

KEPT_SECONDS = 86_400
"""Writes keep it right; this bounds what a Redis that was away just then can get wrong."""
WANTED_SECONDS = 60
"""The same for what is about to change."""
MOST_DETAIL = 200
AT_ONCE = 10_000
"""In one query: all of a list. SQLite takes 32,766 variables since version 3.32."""

_LETTERS = {State.WANTED: "w", State.STORED: "s", State.FAILED: "f"}
_STATES = {letter: state for state, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Seen:
    """How a URL stands. `failure` and `detail` say why there is nothing; `status` is what the origin answered."""

    state: State
    blob_digest: str = ""
    failure: str = ""
    detail: str = ""
    status: int | None = None

    @classmethod
    def of(cls, row: Resource) -> Self:
        return cls(State(row.state), row.blob_digest, row.failure, row.detail[:MOST_DETAIL], row.status)

    def write(self) -> bytes:
        if self.state is State.STORED:  # as most are
            return b"s" + self.blob_digest.encode()
        parts = (self.blob_digest, self.failure, "" if self.status is None else str(self.status), self.detail)
        return (_LETTERS[self.state] + "\n".join(parts)).encode()

    @classmethod
    def read(cls, packed: bytes) -> "Seen":
        """Raises ValueError for what `write` did not write."""
        text = packed.decode()
        state = _STATES.get(text[:1])
        if state is State.STORED:
            return cls(state, text[1:])
        blob_digest, failure, status, detail = text[1:].split("\n", 3)
        if state is None:
            raise ValueError("no state")
        return cls(state, blob_digest, failure, detail, int(status) if status else None)


@cached_batch(
    Kept(
        "mirror:seen",
        write=Seen.write,
        read=Seen.read,
        seconds=lambda seen: WANTED_SECONDS if seen.state is State.WANTED else KEPT_SECONDS,
        memory_seconds=conf.known_seconds,
    ),
    lambda: str(settings.SEEN_URL),
    at_once=AT_ONCE,
)
def _seen(url_digests: Sequence[str]) -> Mapping[str, Seen]:
    fields = ("state", "blob_digest", "failure", "detail", "status")
    rows = Resource.objects.filter(pk__in=url_digests).values_list("pk", *fields)
    return {
        digest: Seen(State(state), blob_digest, failure, detail[:MOST_DETAIL], status)
        for digest, state, blob_digest, failure, detail, status in rows
    }


def look_up(url_digests: Iterable[str]) -> dict[str, Seen]:
    """How these URLs stand, by digest; unknown ones are left out. Raises DatabaseError."""
    return _seen(url_digests)


def note(rows: Mapping[str, Seen]) -> None:
    """Makes known what was written to the database, after that. Never fails."""
    _seen.note(rows)


def note_new(rows: Mapping[str, Seen]) -> None:
    """The same where something newer may be known already, which stays. Never fails."""
    _seen.note_new(rows)


def forget(url_digests: Iterable[str]) -> None:
    """What is known of them may not be right any more. Other processes believe it for MIRROR_KNOWN_SECONDS."""
    _seen.forget(url_digests)


@contextmanager
def changing(url_digests: Sequence[str]) -> Iterator[None]:
    """Their rows are changed meanwhile. Whoever is killed over it leaves nothing that is not right any more."""
    forget(url_digests)
    yield
    forget(url_digests)


def forget_all_here() -> None:
    """What this process remembers: for tests."""
    _seen.forget_all_here()
