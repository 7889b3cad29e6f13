"""What is told of a feed of which there is nothing yet. PURE."""

from dataclasses import dataclass
from datetime import datetime

from feeds.deciding.troubles import UNCOUNTED, Trouble


@dataclass(frozen=True, slots=True)
class Lack:
    """A status of HTTP, a sentence, and after how long somebody may ask again."""

    status: int
    detail: str
    wait_seconds: float


def lack(trouble: str, next_check_at: datetime, now: datetime) -> Lack:
    """Why there is nothing. `trouble` is the name of the Trouble that its last fetch met, empty for none.

    Has no addresses, which may be of a private network.
    """
    wait_seconds = (next_check_at - now).total_seconds()
    if wait_seconds <= 0:  # a page was there, which announces feeds
        return Lack(503, "The feed is being fetched from another address.", 1.0)
    if trouble not in Trouble.__members__:
        return Lack(503, "The feed could not be fetched.", wait_seconds)
    met = Trouble[trouble]
    status = 504 if met is Trouble.TIMEOUT else 503 if met in UNCOUNTED else 502
    return Lack(status, f"The feed could not be fetched: {met.value}.", wait_seconds)
