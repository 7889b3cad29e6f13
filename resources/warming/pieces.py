"""One piece of work that can be done before anybody asks, and when it is to be done. PURE."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from retry.contents import Content
from retry.work import Work

from .benefit import COLD, Standing


@dataclass(frozen=True, slots=True)
class Wanted:
    """Content that should be there, at this version or a later one, and the address at which people ask for it."""

    content_key: str
    address: str
    version: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Work in its slowest lane, all that comes out of it, and how often that is asked for, by weight.

    `group` and `zoom` are what it is counted under: a layer and its zoom, or a kind of content and -1.
    """

    work: Work
    wanted: tuple[Wanted, ...]
    group: str
    zoom: int = -1
    requests: float = 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """When content is to be prepared: where it is not there or not fresh, if nothing else is said.

    `only_expired` leaves alone what is not there. `older_than` adds what is fresh and was stored longer ago. What was
    stored from `done_since` on is done, fresh or not: an interrupted run has prepared it.
    """

    only_expired: bool = False
    older_than: timedelta | None = None
    done_since: datetime | None = None

    def lacks(self, content: Content | None, version: int, now: datetime) -> bool:
        """Whether the content is to be prepared, of which that is in the cache."""
        if content is None:
            return not self.only_expired
        if content.version >= version and self.done_since is not None and content.stored_at >= self.done_since:
            return False
        if not content.is_fresh(version):
            return True
        return self.older_than is not None and now - content.stored_at > self.older_than

    def lacking(self, piece: Piece, contents: Sequence[Content | None], now: datetime) -> list[Wanted]:
        """Which of its contents are to be prepared; they are given in the piece's order."""
        pairs = zip(piece.wanted, contents, strict=True)
        return [wanted for wanted, content in pairs if self.lacks(content, wanted.version, now)]


def standing(content: Content | None, version: int) -> Standing:
    """How content stands for those who ask. How long stale content stays is not known: for longer than matters here."""
    if content is None:
        return COLD
    return Standing(content.fresh_seconds if content.version >= version else 0.0, float("inf"))
