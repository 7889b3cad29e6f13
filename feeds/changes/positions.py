"""Places in the change log, and the cursors that clients keep of them.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NoBase64Error
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Literal, Self

from ..errors import CursorError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHANGE_CHANNEL = "feeds:changed"
"""The channel of `state` that tells of new numbers."""
MAX_CURSOR_CHARACTERS = 200
IDENTITY_CHARACTERS = 12
_MAX_NUMBER = 2**63 - 1
_WRITTEN = re.compile(
    rf"1\.([0-9a-f]{{{IDENTITY_CHARACTERS}}})\.([fc])([0-9]{{1,19}})" + r"\.([0-9]{1,19})" * 5, re.ASCII
)


def number_at(moment: datetime) -> int:
    """The least number that is given at that moment."""
    return (moment - EPOCH) // timedelta(microseconds=1)


class Kind(IntEnum):
    """The kinds of changes with one number, in their order."""

    REMOVAL = 0
    ARRIVAL = 1
    """An entry that is unchanged, of a feed that came into the combination."""
    ENTRY = 2
    END = 3


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """The place after one change. `feed` is 0 but for arrivals; `row` is that of the entry or the removal."""

    number: int = 0
    kind: Kind = Kind.REMOVAL
    feed: int = 0
    row: int = 0

    @classmethod
    def after(cls, number: int) -> Self:
        """The place after all changes with that number."""
        return cls(number, Kind.END)


@dataclass(frozen=True, slots=True)
class ChangeScope:
    """The changes of one feed, or those of a combination."""

    kind: Literal["f", "c"]
    row: int

    def __str__(self) -> str:
        return f"{self.kind}{self.row}"


@dataclass(frozen=True, slots=True)
class ChangeCursor:
    """A client's place in the log. The client began a copy when the log was at `begun`: it needs no older removals."""

    identity: str
    scope: ChangeScope
    begun: int
    position: Position

    @property
    def number(self) -> int:
        """The last number that the client has to know of."""
        return max(self.begun, self.position.number)

    def __str__(self) -> str:
        at = self.position
        parts = ("1", self.identity, self.scope, self.begun, at.number, int(at.kind), at.feed, at.row)
        return urlsafe_b64encode(".".join(map(str, parts)).encode()).decode().rstrip("=")

    @classmethod
    def read(cls, written: str) -> Self:
        """Raises CursorError for a text that is none."""
        try:
            padded = written.encode("ascii") + b"=" * (-len(written) % 4)
            match = _WRITTEN.fullmatch(urlsafe_b64decode(padded).decode("ascii"))
        except (NoBase64Error, UnicodeError):
            match = None
        numbers = [int(text) for text in match.groups()[2:]] if match else []
        if match is None or max(numbers) > _MAX_NUMBER or numbers[3] not in set(Kind):
            raise CursorError("This is no cursor. Use those of this API's answers as they are.")
        row, begun, number, kind, feed, last = numbers
        scope = ChangeScope("f" if match[2] == "f" else "c", row)
        found = cls(match[1], scope, begun, Position(number, Kind(kind), feed, last))
        if str(found) != written:
            raise CursorError("This is no cursor. Use those of this API's answers as they are.")
        return found
