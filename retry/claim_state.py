"""The state of a piece of work, as read from the Redis server `state`. PURE."""

from dataclasses import dataclass, field

from .scripts import Reply

LOST = "lost"


@dataclass(frozen=True, slots=True)
class ClaimBegun:
    """The claim is ours: hand the work over, with this token, or abandon it.

    With `is_sent`, the step that made the claim has handed the work over.
    """

    token: int
    wait_seconds: float
    is_sent: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ClaimPromoted:
    """An earlier claim waits in a slower lane: hand a second copy over, with the same token, unless it `is_sent`."""

    token: int
    wait_seconds: float
    is_sent: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ClaimTaken:
    """The work is claimed already, queued or running."""

    token: int
    wait_seconds: float
    is_running: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class WorkFailed:
    status: int
    detail: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class WorkDone:
    """The work ended a moment ago: `stored`, `failed` or `skipped`; LOST if `cache` was away since it was stored."""

    outcome: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class LaneFull:
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class WorkUnknown:
    """Nothing is known of the work."""


ClaimState = ClaimBegun | ClaimPromoted | ClaimTaken | WorkFailed | WorkDone | LaneFull | WorkUnknown


def read_claim_state(reply: Reply) -> ClaimState:
    """Reads the reply of look.lua."""
    assert isinstance(reply, list)
    match [part.decode() for part in reply]:
        case ["failed", status, detail, wait_ms]:
            return WorkFailed(int(status), detail, int(wait_ms) / 1000)
        case ["done", outcome, wait_ms]:
            return WorkDone(outcome, int(wait_ms) / 1000)
        case ["claimed", token, wait_ms, state]:
            return ClaimTaken(int(token), int(wait_ms) / 1000, state == "running")
        case ["promoted", token, wait_ms, is_sent]:
            return ClaimPromoted(int(token), int(wait_ms) / 1000, bool(is_sent))
        case ["begun", token, wait_ms, is_sent]:
            return ClaimBegun(int(token), int(wait_ms) / 1000, bool(is_sent))
        case ["full", wait_ms]:
            return LaneFull(int(wait_ms) / 1000)
        case _:
            return WorkUnknown()
