"""Outcomes and records of fetches, as tests need them."""

from datetime import UTC, datetime, timedelta

from multidict import CIMultiDict

from resources.fetch.http.messages import BodyDropped, Failure, Fetched, FetchFailed, Head, NotModified, OutcomeTiming
from resources.fetch.timings import FetchRecord, digest_url

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TIMING = OutcomeTiming(NOON.timestamp(), seconds=1.5, head_seconds=0.25, wire_bytes=4000)


def head(status: int = 200) -> Head:
    return Head(status, "https://a.example.com/", CIMultiDict())


def outcomes() -> list[tuple[Fetched | NotModified | BodyDropped | FetchFailed, str, int | None]]:
    """Each kind of outcome, with its record: a word and a status."""
    from_head: list[tuple[Fetched | NotModified | BodyDropped | FetchFailed, str, int | None]] = [
        (NotModified(head(304), TIMING), "not modified", 304),
        (BodyDropped(head(), TIMING), "dropped", 200),
    ]
    return from_head + [(FetchFailed(failure, "no", TIMING, 500), failure.value, 500) for failure in Failure]


def record(
    scope: str = "a.example.com", at: datetime = NOON, *, after: float = 0.0, outcome: str = "fetched", url: str = ""
) -> FetchRecord:
    """A record of a request so many seconds after that time."""
    throttled = outcome == "throttled"
    return FetchRecord(
        started_at=at + timedelta(seconds=after),
        url_digest=digest_url(url or f"https://{scope}/"),
        host=scope,
        scope=scope,
        kind="tile",
        lane="fast",
        head_seconds=None if throttled else 0.25,
        seconds=0.5,
        wire_bytes=1000,
        outcome=outcome,
        status=429 if throttled else 200,
        egress="192.0.2.7",
    )
