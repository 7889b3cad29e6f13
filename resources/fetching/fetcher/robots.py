"""robots.txt (RFC 9309): the crawl delay that an origin asks for, and how long that is believed. PURE.

Nothing else of it is read: what is fetched here somebody has asked for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from protego import Protego

from ..addressing import targets
from ..outcomes import Failed, Failure, Fetched, Outcome
from ..requests import Fetch, Limits

MAX_BYTES = 512_000
"""As much as must be read (RFC 9309, 2.5). Of what is larger nothing is."""
MAX_STEPS = 200_000
"""What reading it may cost: each rule, for each of the agents that it is for. The rest is not read."""
MOST_DELAY_SECONDS = 60.0

BELIEVED_SECONDS = 86_400.0
BELIEVED_AFTER_FAILURE_SECONDS = 3600.0

_RULE = re.compile(r"\s*(?:dis)?allow\s*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CrawlDelay:
    """What an origin asks for between two requests, 0 when it asks for nothing; and how long that is believed."""

    seconds: float
    known_for_seconds: float


def address(url: str) -> str:
    """Where the robots.txt for a URL is. Raises FetchError for an address that is not fetched."""
    target = targets.parse(url)
    return f"{target.scheme}://{target.authority}/robots.txt"


def fetch(url: str, limits: Limits) -> Fetch:
    """How the robots.txt for a URL is asked for: its body stays in memory. Raises FetchError, as address()."""
    return Fetch(address(url), kind="robots", limits=replace(limits, max_body_bytes=MAX_BYTES, spool_bytes=MAX_BYTES))


def read(outcome: Outcome, user_agent: str) -> CrawlDelay:
    """What came of asking for it means. An answer of 4xx is that there is none (RFC 9309, 2.3.1.3).

    Computes for up to a second: not for an event loop.
    """
    match outcome:
        case Fetched(_, body):
            return CrawlDelay(parse(body.read(), user_agent), BELIEVED_SECONDS)
        case Failed(failure=Failure.PERMANENT, status=int(status)) if 400 <= status < 500:
            return CrawlDelay(0, BELIEVED_SECONDS)
    return CrawlDelay(0, BELIEVED_AFTER_FAILURE_SECONDS)


def parse(body: bytes, user_agent: str) -> float:
    """The crawl delay for an agent in seconds, 60 at the most; 0 where there is none that makes sense."""
    text = body[:MAX_BYTES].decode("utf-8-sig", "replace")
    found = Protego.parse("\n".join(_affordable(text))).crawl_delay(user_agent)
    return min(found or 0.0, MOST_DELAY_SECONDS)


def _affordable(text: str) -> Iterator[str]:
    """Its lines, as far as reading them costs no more than it may: many agents with many rules are a bomb."""
    steps, agents, are_named = 0, 0, False
    for line in text.splitlines():
        if line.lstrip()[:4].lower() == "user":
            agents, are_named = agents + 1 if are_named else 1, True
        elif _RULE.match(line):
            are_named = False
        steps += max(agents, 1)
        if steps > MAX_STEPS:
            return
        yield line
