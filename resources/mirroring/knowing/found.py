"""What came of a URL, as it is written. Values only: reads and writes nothing."""

from dataclasses import dataclass
from datetime import datetime

from .models import State, Step


@dataclass(frozen=True, slots=True)
class Source:
    """A URL as it was asked for, by the digest of its canonical form, and its host."""

    url_digest: str
    url: str
    host: str


@dataclass(frozen=True, slots=True)
class Contents:
    """Bytes that are kept, under this name in the storage."""

    digest: str
    size: int
    media_type: str
    width: int | None
    height: int | None
    name: str


@dataclass(frozen=True, slots=True)
class Vouched:
    """By what an origin says which content it is: keys of validators, those that look like digests and the others.

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
class Found:
    """The URL has this content. With `contents`, its bytes were downloaded: then what it is settled by is seen by
    whoever writes. Without, the blob of that digest is known, and `step` says how; `vouched_by` is the host that says
    so, where nothing else does.
    """

    source: Source
    blob_digest: str
    at: datetime
    contents: Contents | None = None
    step: Step = Step.CONTENT
    status: int | None = None
    moved_to: str = ""
    etag: str = ""
    last_modified: str = ""
    vouched_by: str | None = None
    vouched: Vouched | None = None
    aliases: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """There is nothing new: it has failed, or is tried again at `due_at`, or what was stored before stays."""

    source: Source
    state: State
    at: datetime
    failure: str
    detail: str
    status: int | None = None
    attempts: int = 0
    due_at: datetime | None = None
    blob_digest: str = ""
    step: str = ""


Outcome = Found | Lost
