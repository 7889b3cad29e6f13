"""Places between entries, at which pages begin. PURE.

Entries stand from the newest to the oldest: by the time at which they happened, then by their number. A page that
begins at an entry stays where it is when newer ones come.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

_START = datetime(1970, 1, 1, tzinfo=UTC)
_WRITTEN = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Next to an entry: when that happened, and its number."""

    happened_at: datetime
    number: int

    def __str__(self) -> str:
        """Microseconds since 1970, a hyphen, the number."""
        return f"{(self.happened_at - _START) // timedelta(microseconds=1)}-{self.number}"

    @classmethod
    def read(cls, written: str) -> Self | None:
        """The place, None for what is none."""
        match = _WRITTEN.fullmatch(written)
        try:
            return cls(_START + timedelta(microseconds=int(match[1])), int(match[2])) if match else None
        except OverflowError:
            return None
