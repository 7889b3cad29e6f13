"""Reads what the frontier's scripts reply. PURE."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from retry.scripts import Reply

from .jobs import (
    Again,
    Claimed,
    Doomed,
    Ended,
    Enqueued,
    Full,
    Held,
    Idle,
    InForce,
    Joined,
    Lane,
    Limits,
    More,
    NoBudget,
    Priority,
    Stale,
    Wish,
)


def enqueued(reply: Reply) -> Enqueued | Joined | Full:
    """Reads the answer of enqueue.lua."""
    match texts(reply):
        case ["queued", scope, wait_ms, closed_ms]:
            return Enqueued(scope, float(wait_ms) / 1000, float(closed_ms) / 1000)
        case ["joined", state, wait_ms, closed_ms]:
            return Joined(state, float(wait_ms) / 1000, float(closed_ms) / 1000)
        case [_, wait_ms]:
            return Full(float(wait_ms) / 1000)
    raise ValueError(f"enqueue.lua does not reply {reply!r}")


def claimed(reply: Reply) -> list[Claimed | Doomed | Idle]:
    """Reads the answer of claim.lua."""
    parts = iter(cast(list[Any], reply))
    return [_claimed(how, parts) for how in parts]


def _claimed(how: bytes, parts: Iterator[Any]) -> Claimed | Doomed | Idle:
    """One of them, by the parts that follow."""
    if how == b"idle":
        return Idle(next(parts) / 1000)
    token, version, record, wanted, starts = islice(parts, 5)
    *held, why = record
    job = _job(held, int(token), int(version), _wishes(wanted), starts)
    return job if how == b"claimed" else Doomed(job, why.decode())


def reported(reply: Reply) -> tuple[bool, Held | Ended | More | Again | NoBudget | Stale]:
    """Reads the answer of report.lua: whether a work ended, and what became of the job."""
    ended, *parts = cast(list[Any], reply)
    return ended == 1, _reported(parts)


def _reported(parts: list[Any]) -> Held | Ended | More | Again | NoBudget | Stale:
    match parts[0]:
        case b"held":
            return Held()
        case b"again":
            return Again(float(parts[1]) / 1000)
        case b"refused":
            return NoBudget()
        case _:
            return finished(parts)


def finished(reply: Reply) -> Ended | More | Stale:
    """Reads the answer of finish.lua."""
    parts = cast(list[Any], reply)
    match parts[0]:
        case b"ended":
            return Ended()
        case b"more":
            return More(int(parts[1]), _wishes(parts[2]))
        case _:
            return Stale()


def in_force(reply: Reply) -> list[InForce]:
    """Reads the answer of limits.lua: five texts for each domain, empty where nothing is set."""
    return [_in_force(*(part.decode() for part in parts)) for parts in cast(list[list[bytes]], reply)]


def texts(reply: Reply) -> list[str]:
    return [part.decode() for part in cast(list[bytes], reply)]


def fields(flat: Reply) -> dict[str, str]:
    """A hash: names and values in turn."""
    parts = texts(flat)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _in_force(delay_ms: str, cap: str, most_bytes: str, paused: str, counted_by: str) -> InForce:
    limits = Limits(
        delay_seconds=float(delay_ms) / 1000 if delay_ms else None,
        in_flight=int(float(cap)) if cap else None,
        bytes_per_second=int(float(most_bytes)) if most_bytes else None,
        paused=paused == "1",
    )
    return InForce(limits, counted_by)


def _wishes(flat: Reply) -> tuple[Wish, ...]:
    """`<order> <payload>` by id."""
    parted = [(name, *value.partition(" ")) for name, value in fields(flat).items()]
    return tuple(Wish(name, payload, int(order)) for name, order, _, payload in parted)


def _job(held: list[Any], token: int, version: int, wishes: tuple[Wish, ...], starts: list[int]) -> Claimed:
    *texts, priority, attempts, lapses, needs_robots = held
    key, url, detail, scope, host, egress, lane = (text.decode() for text in texts)
    return Claimed(
        key=key,
        token=token,
        version=version,
        url=url,
        detail=detail,
        scope=scope,
        host=host,
        egress=egress,
        lane=cast(Lane, lane),
        priority=Priority(priority),
        attempts=attempts,
        lapses=lapses,
        needs_robots=needs_robots == b"1",
        wishes=wishes,
        starts={wish.id: start for wish, start in zip(wishes, starts, strict=False)},  # none are asked for robots.txt
    )
