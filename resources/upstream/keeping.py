"""How long a fetched tile is kept, under which version, and by what its server knows it again. PURE."""

import json
from dataclasses import dataclass
from typing import Self

from resources.fetching.addressing import targets
from resources.fetching.errors import FetchError
from resources.fetching.outcomes import Head

EMPTY_SECONDS = 86_400.0
"""A tile that is not there is asked for again at least once a day: servers fill gaps, and mend mistakes."""


@dataclass(frozen=True, slots=True)
class Validators:
    """What was sent with a tile, to ask whether it has changed, and the address that sent it."""

    url: str
    etag: str | None
    last_modified: str | None

    @classmethod
    def of(cls, head: Head) -> Self:
        return cls(head.url, head.etag, head.last_modified)

    @classmethod
    def read(cls, note: str) -> Self | None:
        """From the note beside a tile; None where there is none that makes sense."""
        try:
            held = json.loads(note)
            return cls(str(held["url"]), _text(held["etag"]), _text(held["last_modified"]))
        except (ValueError, KeyError, TypeError):
            return None

    def note(self) -> str:
        """The same as text; empty when there is nothing to ask by."""
        if self.etag is None and self.last_modified is None:
            return ""
        return json.dumps({"url": self.url, "etag": self.etag, "last_modified": self.last_modified})

    def belong_to(self, url: str) -> bool:
        """Whether they are of what this address itself answers.

        Validators know one resource only. Behind a redirect there may be another one next time, and a
        template can be changed to another map of the same server.
        """
        try:
            return targets.parse(url).url == self.url
        except FetchError:
            return False

    def renewed(self, head: Head) -> "Validators":
        """As a 304 leaves them: it need not repeat them (RFC 9110, 15.4.5)."""
        return Validators(self.url, head.etag or self.etag, head.last_modified or self.last_modified)


def version_of(layer_version: int, started_at: float, now: float) -> int:
    """The version of a tile that was asked for at `started_at` (Unix seconds).

    Versions are moments in microseconds. What was asked for before the layer's last change is older than the
    layer, and stale at once: nobody knows what the change was for. A version from the future (a clock was set
    back) is taken for the present one, else nothing would ever be fresh.
    """
    started = int(started_at * 1_000_000)
    return started if started < layer_version <= int(now * 1_000_000) else layer_version


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
