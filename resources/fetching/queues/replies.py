"""Reads what the frontier's scripts reply. PURE."""

from collections.abc import Mapping
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


def claimed(reply: Reply) -> Claimed | Doomed | Idle:
    """Reads the answer of claim.lua."""
    parts = cast(list[Any], reply)
    if parts[0] == b"idle":
        return Idle(int(parts[1]) / 1000)
    how, token, version, flat, wanted = parts
    held = fields(flat)
    job = _job(held, int(token), int(version), _wishes(wanted))
    return job if how == b"claimed" else Doomed(job, held["why"])


def reported(reply: Reply) -> Held | Ended | More | Again | NoBudget | Stale:
    """Reads the answer of report.lua."""
    parts = cast(list[Any], reply)
    match parts[0]:
        case b"held":
            return Held()
        case b"again":
            return Again(float(parts[1]) / 1000)
        case b"refused":
            return NoBudget()
        case _:
            return finished(reply)


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


def _job(held: Mapping[str, str], token: int, version: int, wishes: tuple[Wish, ...]) -> Claimed:
    return Claimed(
        key=held["key"],
        token=token,
        version=version,
        url=held["url"],
        detail=held["detail"],
        scope=held["scope"],
        host=held["host"],
        egress=held["egress"],
        lane=cast(Lane, held["lane"]),
        priority=Priority(int(held["priority"])),
        attempts=int(held["attempts"]),
        lapses=int(held["lapses"]),
        needs_robots=held.get("needs_robots") == "1",  # a doomed job may never have been handed out
        wishes=wishes,
    )
