"""robots.txt (RFC 9309): the crawl delay of an origin, and how long it is believed.

Nothing else of it is parsed: every fetch here was requested by a user or an admin.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from protego import Protego

from ..http import url_syntax
from ..http.messages import Failure, Fetched, FetchFailed, FetchLimits, FetchRequest, Outcome

MAX_ROBOTS_BYTES = 512_000
"""The size that must be read (RFC 9309, 2.5). A larger file is not read at all."""
MAX_ROBOTS_STEPS = 200_000
"""Limit on the cost of parsing: each rule counts for each of its agents. The rest is not parsed."""
MAX_CRAWL_DELAY_SECONDS = 60.0

ROBOTS_BELIEVED_SECONDS = 86_400.0
ROBOTS_BELIEVED_AFTER_FAILURE_SECONDS = 3600.0

_RULE = re.compile(r"\s*(?:dis)?allow\s*:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CrawlDelay:
    """The delay between two requests that an origin asks for, 0 without one; and how long that is believed."""

    seconds: float
    known_for_seconds: float


def robots_request(url: str, limits: FetchLimits) -> FetchRequest:
    """Returns the request for a URL's robots.txt: its body stays in memory.

    Raises FetchError for an address that is not fetched.
    """
    return FetchRequest(
        replace(url_syntax.parse_target(url), path="/robots.txt", query=None).url,
        kind="robots",
        limits=replace(limits, max_body_bytes=MAX_ROBOTS_BYTES, spool_bytes=MAX_ROBOTS_BYTES),
    )


def read_crawl_delay(outcome: Outcome, user_agent: str) -> CrawlDelay:
    """Returns the crawl delay of an outcome. An answer of 4xx means that there is none (RFC 9309, 2.3.1.3).

    Computes for up to a second: not for an event loop.
    """
    match outcome:
        case Fetched(_, body):
            return CrawlDelay(parse_crawl_delay(body.read(), user_agent), ROBOTS_BELIEVED_SECONDS)
        case FetchFailed(failure=Failure.PERMANENT, status=int(status)) if 400 <= status < 500:
            return CrawlDelay(0, ROBOTS_BELIEVED_SECONDS)
    return CrawlDelay(0, ROBOTS_BELIEVED_AFTER_FAILURE_SECONDS)


def parse_crawl_delay(body: bytes, user_agent: str) -> float:
    """Returns the crawl delay for an agent in seconds, 60 at the most; 0 without one that makes sense."""
    text = body[:MAX_ROBOTS_BYTES].decode("utf-8-sig", "replace")
    found = Protego.parse("\n".join(_affordable_lines(text))).crawl_delay(user_agent)
    return min(found or 0.0, MAX_CRAWL_DELAY_SECONDS)


def _affordable_lines(text: str) -> Iterator[str]:
    """Yields the lines until their cost exceeds MAX_ROBOTS_STEPS: many agents with many rules are a bomb."""
    steps, agents, are_named = 0, 0, False
    for line in text.splitlines():
        if line.lstrip()[:4].lower() == "user":
            agents, are_named = agents + 1 if are_named else 1, True
        elif _RULE.match(line):
            are_named = False
        steps += max(agents, 1)
        if steps > MAX_ROBOTS_STEPS:
            return
        yield line
