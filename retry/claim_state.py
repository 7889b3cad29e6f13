"""How a piece of work stands, as `state` tells it. PURE."""

from dataclasses import dataclass

from .scripts import Reply


@dataclass(frozen=True, slots=True)
class Begun:
    """The claim is ours: hand the work over, with this token, or abandon it."""

    token: int
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Promoted:
    """Somebody's claim waits in a slower lane: hand a second copy over, with the same token."""

    token: int
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Claimed:
    """Somebody has the claim, queued or running."""

    token: int
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure record is in force."""

    status: int
    detail: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Done:
    """The work ended a moment ago: `stored`, `failed` or `skipped`."""

    outcome: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Full:
    """The lane takes no more work."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known of the work."""


Standing = Begun | Promoted | Claimed | Failed | Done | Full | Unknown


def standing(reply: Reply) -> Standing:
    """Reads the answer of look.lua."""
    assert isinstance(reply, list)
    match [part.decode() for part in reply]:
        case ["failed", status, detail, wait_ms]:
            return Failed(int(status), detail, int(wait_ms) / 1000)
        case ["done", outcome, wait_ms]:
            return Done(outcome, int(wait_ms) / 1000)
        case ["claimed", token, wait_ms]:
            return Claimed(int(token), int(wait_ms) / 1000)
        case ["promoted", token, wait_ms]:
            return Promoted(int(token), int(wait_ms) / 1000)
        case ["begun", token, wait_ms]:
            return Begun(int(token), int(wait_ms) / 1000)
        case ["full", wait_ms]:
            return Full(int(wait_ms) / 1000)
        case _:
            return Unknown()
