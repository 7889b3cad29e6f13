"""Counts of requests by kind, group and answer, of all machines together, in `state`.

Counts what the front's log tells (retry/popularity.py takes it in): nginx answers most requests by
itself, and main never sees them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from redis.exceptions import RedisError

from . import connections
from .errors import StoreUnavailable

HITS = "retry:requests"
PERIOD_SECONDS = 600
DAY_SECONDS = 86_400
KEPT_SECONDS = DAY_SECONDS + 2 * PERIOD_SECONDS
"""How long the counts of a period stay after their last change: a day, and the period that is left in part."""

ANSWERS = ("hot", "passed", "waiting", "missing", "busy", "failed", "other")
SERVED = ("hot", "passed")


@dataclass(frozen=True, slots=True)
class Hits:
    """How many requests of a kind and group were answered in one way."""

    kind: str
    group: str
    answer: str
    number: float


def period(moment: float, now: float) -> int:
    """The period in which a request of that moment is counted, -1 when that was more than a day ago."""
    return -1 if now - moment > DAY_SECONDS else int(min(moment, now) // PERIOD_SECONDS)


def shares(now: float, seconds: float) -> dict[int, float]:
    """How much of each period lies in the last `seconds`: one, but for the oldest."""
    last, began = int(now // PERIOD_SECONDS), (now - seconds) / PERIOD_SECONDS
    first = int(began // 1)
    return {number: min(1.0, number + 1 - began) for number in range(first, last + 1)}


def totals() -> list[Hits]:
    """All that was ever counted. Raises StoreUnavailable."""
    try:
        held = connections.client("state").hgetall(HITS)
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    return list(_read(cast("dict[bytes, bytes]", held)))


def of_group(kind: str, group: str, now: float, seconds: tuple[float, ...]) -> list[dict[str, float]]:
    """By answer, what was counted for the group: ever, and in each of these last times. Raises StoreUnavailable."""
    spans = [shares(now, span) for span in seconds]
    numbers = sorted(set().union(*spans)) if spans else []
    fields = [f"{kind} {group} {answer}" for answer in ANSWERS]
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            for name in (HITS, *(f"{HITS}:{number}" for number in numbers)):
                pipeline.hmget(name, fields)
            ever, *periods = [_counts(reply) for reply in pipeline.execute()]
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    held = dict(zip(numbers, periods, strict=True))
    return [ever, *(_added(held, span) for span in spans)]


def _counts(reply: list[bytes | None]) -> dict[str, float]:
    return {answer: float(number or 0) for answer, number in zip(ANSWERS, reply, strict=True)}


def _added(held: dict[int, dict[str, float]], span: dict[int, float]) -> dict[str, float]:
    return {answer: sum(held[number][answer] * share for number, share in span.items()) for answer in ANSWERS}


def _read(held: dict[bytes, bytes]) -> Iterator[Hits]:
    for field, number in held.items():
        kind, group, answer = field.decode().split(" ")
        yield Hits(kind, group, answer, float(number))
