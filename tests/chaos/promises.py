"""The promises of the site's answers: lists of URLs that it has accepted, pings that it has taken."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from .origins import Origin


@dataclass(frozen=True, slots=True)
class Ping:
    """An accepted ping: this feed has that edition. `sent` is in seconds of the monotonic clock.

    The answer may have come much later: a fetch meanwhile has that edition already.
    """

    path: str
    edition: int
    sent: float


@dataclass(slots=True)
class Promises:
    """All promises of the site. Neither asks the site nor judges it."""

    accepted: dict[str, str] = field(default_factory=dict)
    """URLs that were reported, and the batch of each."""
    pings: list[Ping] = field(default_factory=list)
    shown: dict[tuple[str, int], float] = field(default_factory=dict)
    """The time when a page first showed an edition of a feed, by the feed's path and the edition."""

    def hear_list(self, body: bytes) -> bool:
        """An answer to a list: every URL of it has to be accepted, for none was reported before."""
        told = json.loads(body)
        if not all(one["status"] == "accepted" for one in told["urls"]):
            return False
        self.accepted.update((one["url"], told["batch"]) for one in told["urls"])
        return True

    def hear_ping(self, path: str, edition: int, sent: float) -> bool:
        self.pings.append(Ping(path, edition, sent))
        return True

    def hear_feeds(self, body: bytes, origin: Origin, entries: int) -> bool:
        """Tells whether a page has as many entries, each of them of an edition that its feed has had by now."""
        found = editions(item["title"] for item in json.loads(body)["items"])
        self.see(found)
        return len(found) == entries and all(0 <= edition <= origin.editions.get(path, 0) for path, edition in found)

    def see(self, found: Iterable[tuple[str, int]]) -> None:
        for one in found:
            self.shown.setdefault(one, time.monotonic())

    def first_shown(self, ping: Ping) -> float | None:
        """The time when its news was first seen, or something later of that feed."""
        seen = [at for (path, edition), at in self.shown.items() if path == ping.path and edition >= ping.edition]
        return min(seen, default=None)


def editions(titles: Iterable[str]) -> list[tuple[str, int]]:
    """The path of the feed and the edition of each entry, by its title."""
    words = [title.split(" ") for title in titles]
    return [(path, int(edition)) for path, _, edition in words]
