"""Main's decision: what to answer when a look has found this. PURE."""

from dataclasses import dataclass

from .contents import Content
from .looking import Found
from .standings import Begun, Claimed, Done, Failed, Full, Promoted, Unknown


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer with the content. `stale` content is offered to shared caches for a second only."""

    content: Content
    stale: bool
    why: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with the recorded failure."""

    status: int
    detail: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Defer:
    """Send the client to the waiting instance."""

    wait_seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer 503: nothing will come of waiting now."""

    wait_seconds: float
    why: str


Answer = Serve | Fail | Defer | Refuse


@dataclass(frozen=True, slots=True)
class HandOver:
    """The work has to be published, with this token. `ours` says that the claim was made just now."""

    token: int
    ours: bool


@dataclass(frozen=True, slots=True)
class TakeBack:
    """The claim is not needed after all: the content came in between."""

    token: int


def decide(found: Found, version: int, seen: Content | None) -> tuple[Answer, HandOver | TakeBack | None]:
    """What to answer, and what to do about the claim. `seen` is the content of the look before the claim."""
    content = found.content
    action = _claim_action(found, version, seen)
    if content is not None:
        fresh = content.is_fresh(version)
        return Serve(content, not fresh, "hit" if fresh else found.word), action
    match found.standing:
        case Begun(_, wait) | Promoted(_, wait) | Claimed(_, wait):
            return Defer(wait, found.word), action
        case Failed(status, detail, wait):
            return Fail(status, detail, wait), None
        case Done(_, wait):
            return Refuse(wait, "prepared and gone again"), None
        case Full(wait):
            return Refuse(wait, "backlog full"), None
        case Unknown():  # only a look that does not begin can find this
            return Refuse(1, "nothing known"), None


def _claim_action(found: Found, version: int, seen: Content | None) -> HandOver | TakeBack | None:
    match found.standing:
        case Begun(token, _) if found.content is not None and _came_in_between(found.content, version, seen):
            return TakeBack(token)
        case Begun(token, _):
            return HandOver(token, ours=True)
        case Promoted(token, _):
            return HandOver(token, ours=False)
        case _:
            return None


def _came_in_between(content: Content, version: int, seen: Content | None) -> bool:
    return content.is_fresh(version) and (seen is None or content.stored_at != seen.stored_at)
