"""What the site has promised by its answers: lists of URLs that it has accepted, pings that it has taken."""

import json
import time
from dataclasses import dataclass, field

from tests.chaos.origins import Origin


@dataclass(frozen=True, slots=True)
class Ping:
    """A ping that was taken: this feed has had that edition since then (seconds of the monotonic clock)."""

    path: str
    edition: int
    taken: float


@dataclass(slots=True)
class Promises:
    """All of them. Neither asks the site nor judges it."""

    accepted: dict[str, str] = field(default_factory=dict)
    """URLs that were reported, and the batch of each."""
    pings: dict[str, Ping] = field(default_factory=dict)
    """The last ping of each feed, by its path."""

    def hear_list(self, body: bytes) -> bool:
        """An answer to a list: every URL of it has to be accepted, for none was reported before."""
        told = json.loads(body)
        if not all(one["status"] == "accepted" for one in told["urls"]):
            return False
        self.accepted.update((one["url"], told["batch"]) for one in told["urls"])
        return True

    def hear_ping(self, path: str, edition: int) -> bool:
        before = self.pings.get(path)
        if before is None or before.edition < edition:
            self.pings[path] = Ping(path, edition, time.monotonic())
        return True


def is_feed(body: bytes, origin: Origin, entries: int) -> bool:
    """Whether a page has as many entries, each of them of an edition that its feed has had by now."""
    titles = [item["title"].split(" ") for item in json.loads(body)["items"]]
    return len(titles) == entries and all(
        0 <= int(edition) <= origin.editions.get(path, 0) for path, _, edition in titles
    )
