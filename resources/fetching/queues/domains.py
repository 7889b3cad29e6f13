"""A domain's record in the frontier, as values with units. PURE: reads what frontier.look() brings."""

from collections.abc import Mapping
from dataclasses import dataclass

from .politeness import Politeness


@dataclass(frozen=True, slots=True)
class Domain:
    """How one domain stands. Moments are in seconds from now, negative for the past; None is never.

    `crawl_gap_seconds` is what its robots.txt asks for; `asks_robots` is whether a request is under way for that.
    """

    scope: str
    waiting: int
    waiting_later: int
    in_flight: int
    most_in_flight: int
    gap_seconds: float
    crawl_gap_seconds: float
    asks_robots: bool
    next_in: float | None
    blocked_for: float
    block_cause: str
    bytes_for: float
    failures: int
    circuit_opened: int
    circuit_for: float
    trouble_since: float | None
    last_cut: float | None
    refused_gap_seconds: float | None
    last_request: float | None
    last_success: float | None
    last_status: str
    succeeded: int
    refused: int
    failed: int
    is_paused: bool
    is_gap_set: bool
    is_cap_set: bool


def read(scope: str, now_ms: float, fields: Mapping[str, str], politeness: Politeness) -> Domain:
    """The domain as its record says; one without a record is one that nothing is known of."""

    def number(name: str, default: float = 0.0) -> float:
        return float(fields.get(name) or default)

    def moment(name: str) -> float | None:
        at = number(name)
        return (at - now_ms) / 1000 if at else None

    def left(name: str) -> float:
        return max(0.0, moment(name) or 0.0)

    waiting = sum(int(number(f"{lane}_{priority}")) for lane in ("fast", "slow") for priority in (1, 2, 3))
    learnt_gap, learnt_cap = number("delay", politeness.delay * 1000), number("cap", politeness.in_flight)
    asks_robots = bool(fields.get("robots_job"))
    most_in_flight = 1 if number("opens") or asks_robots else int(number("set_cap", learnt_cap))
    return Domain(
        scope=scope,
        waiting=waiting,
        waiting_later=int(number("later")),
        in_flight=int(number("in_flight")),
        most_in_flight=most_in_flight,
        gap_seconds=float(fields.get("set_delay") or learnt_gap) / 1000,
        crawl_gap_seconds=number("crawl") / 1000,
        asks_robots=asks_robots,
        next_in=moment("next"),
        blocked_for=left("block_until"),
        block_cause=fields.get("block_cause", ""),
        bytes_for=left("bytes_until"),
        failures=int(number("failures")),
        circuit_opened=int(number("opens")),
        circuit_for=left("circuit_until"),
        trouble_since=moment("trouble_since"),
        last_cut=moment("cut_at"),
        refused_gap_seconds=number("floor") / 1000 or None,
        last_request=moment("asked_at"),
        last_success=moment("ok_at"),
        last_status=fields.get("status", ""),
        succeeded=int(number("ok")),
        refused=int(number("throttled")),
        failed=int(number("failed")),
        is_paused=number("set_paused") == 1,
        is_gap_set=bool(fields.get("set_delay")),
        is_cap_set=bool(fields.get("set_cap")),
    )
