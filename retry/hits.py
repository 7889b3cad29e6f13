"""Counts of requests by kind, group and answer, of all machines together, in `state`.

Counts what the front's log tells (retry/popularity.py takes it in): nginx answers most requests by
itself, and main never sees them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from redis.exceptions import RedisError

from . import connections, periods
from .errors import StoreUnavailable

HITS = "retry:requests"
ANSWERS = ("hot", "passed", "waiting", "missing", "busy", "failed", "other")


@dataclass(frozen=True, slots=True)
class Hits:
    """How many requests of a kind and group were answered in one way."""

    kind: str
    group: str
    answer: str
    number: float


def totals() -> list[Hits]:
    """All that was ever counted, by group; not by their parts. Raises StoreUnavailable."""
    try:
        held = connections.client("state").hgetall(HITS)
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    found = _read(cast("dict[bytes, bytes]", held))
    return [each for each in found if not each.kind.endswith(periods.PARTS)]


def of_group(kind: str, group: str, now: float, seconds: tuple[float, ...]) -> list[dict[str, float]]:
    """By answer, what was counted for the group: ever, and in each of these last times. Raises StoreUnavailable."""
    spans = [periods.shares(now, span) for span in seconds]
    numbers = sorted(set().union(*spans)) if spans else []
    fields = [f"{kind} {group} {answer}" for answer in ANSWERS]
    try:
        with connections.client("state").pipeline(transaction=False) as pipeline:
            for name in (HITS, *(f"{HITS}:{number}" for number in numbers)):
                pipeline.hmget(name, fields)
            ever, *recent = [_counts(reply) for reply in pipeline.execute()]
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    held = dict(zip(numbers, recent, strict=True))
    return [ever, *(_added(held, span) for span in spans)]


def ever(kind: str, groups: Sequence[str]) -> list[dict[str, float]]:
    """By answer, what was ever counted for each of the groups. Raises StoreUnavailable."""
    fields = [f"{kind} {group} {answer}" for group in groups for answer in ANSWERS]
    try:
        reply = cast("list[bytes | None]", connections.client("state").hmget(HITS, fields) if fields else [])
    except RedisError as error:
        raise StoreUnavailable(f"state: {error}") from error
    return [_counts(reply[start : start + len(ANSWERS)]) for start in range(0, len(fields), len(ANSWERS))]


def _counts(reply: list[bytes | None]) -> dict[str, float]:
    return {answer: float(number or 0) for answer, number in zip(ANSWERS, reply, strict=True)}


def _added(held: dict[int, dict[str, float]], span: dict[int, float]) -> dict[str, float]:
    return {answer: sum(held[number][answer] * share for number, share in span.items()) for answer in ANSWERS}


def _read(held: dict[bytes, bytes]) -> Iterator[Hits]:
    for field, number in held.items():
        kind, group, answer = field.decode().split(" ")
        yield Hits(kind, group, answer, float(number))
