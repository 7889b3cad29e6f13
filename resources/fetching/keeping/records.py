"""What is noted of each fetch. PURE: made from what was asked and what came."""

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Self

from ..addressing.scopes import MOST_SCOPE, scopes
from ..outcomes import Dropped, Failed, Fetched, NotModified, Outcome
from ..requests import Fetch

MOST_WORD = 20
MOST_EGRESS = 100


@dataclass(frozen=True, slots=True)
class Record:
    """One request: when it began, what it was for, how long it took, how it ended.

    `outcome` is fetched, not modified, dropped, or the value of a Failure; `head_seconds` the time to the
    last answer's head, None without one. Texts are as short as the database keeps them.
    """

    started_at: datetime
    url_digest: str
    host: str
    scope: str
    kind: str
    lane: str
    head_seconds: float | None
    seconds: float
    wire_bytes: int
    outcome: str
    status: int | None
    egress: str = ""

    @classmethod
    def of(cls, fetch: Fetch, outcome: Outcome, *, scope: str, lane: str, egress: str = "") -> Self:
        """The record of a fetch in that lane, under the limits of that scope. Raises nothing."""
        timing = outcome.timing
        return cls(
            started_at=datetime.fromtimestamp(timing.started_at, UTC),
            url_digest=url_digest(fetch.url),
            host=_text(_host(fetch.url), MOST_SCOPE),
            scope=_text(scope, MOST_SCOPE),
            kind=_text(fetch.kind, MOST_WORD),
            lane=lane,
            head_seconds=timing.head_seconds,
            seconds=timing.seconds,
            wire_bytes=timing.wire_bytes,
            outcome=_word(outcome),
            status=outcome.status if isinstance(outcome, Failed) else outcome.head.status,
            egress=_text(egress, MOST_EGRESS),
        )


def url_digest(url: str) -> str:
    """What stands for an address in the records: the SHA-256 of it as it was given, in lower-case hex."""
    return sha256(url.encode("utf-8", "surrogatepass")).hexdigest()


def _word(outcome: Outcome) -> str:
    match outcome:
        case Fetched():
            return "fetched"
        case NotModified():
            return "not modified"
        case Dropped():
            return "dropped"
        case Failed(failure):
            return failure.value


def _host(url: str) -> str:
    try:
        return scopes(url).host
    except ValueError:  # an address without a host fails, and its failure is noted too
        return ""


def _text(text: str, most: int) -> str:
    """What every database takes: PostgreSQL has no NUL, and no half of a surrogate pair."""
    if text.isascii() and text.isprintable():  # as nearly all are
        return text[:most]
    return text.encode("utf-8", "replace").decode().replace("\0", "?")[:most]
