"""Main's decision: serve, fail, defer or refuse, after one look at the work and its content. PURE.

Main and the waiting instance share the look. It asks `state` first, then `cache`. In this order nothing is
missed: content is written before its claim ends. A look is a generator that yields calls and is sent their
replies, so the same steps run in threads and in asyncio, alone and many at once.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field

from . import claim_state
from .claim_state import LOST, ClaimBegun, ClaimPromoted, ClaimTaken, LaneFull, WorkDone, WorkFailed, WorkUnknown
from .contents import Content, read_content
from .errors import StoreUnavailable
from .scripts import Reply, ScriptCall

_STATE_WORDS: Mapping[type[claim_state.ClaimState], str] = {
    **{ClaimBegun: "begun", ClaimPromoted: "promoted", ClaimTaken: "claimed"},
    **{WorkFailed: "failed", WorkDone: "done", LaneFull: "full", WorkUnknown: "unknown"},
}

LOOKED_AT = "tarry.looked_at"
"""The name, in a request's META, of the Unix seconds before its look: earlier requests may share its answer."""

LookSteps = Generator[ScriptCall, Reply, "LookResult"]


@dataclass(frozen=True, slots=True)
class LookResult:
    """The result of a look: the content, fresh or stale, and the state of its work.

    With `cache_is_away` there may be content, and no instance can read it.
    """

    content: Content | None
    state: claim_state.ClaimState
    cache_is_away: bool = False

    @property
    def word(self) -> str:
        return _STATE_WORDS[type(self.state)]


def look_up_content(question: ScriptCall, content_key: str, *, with_body: bool, was_missing: bool = False) -> LookSteps:
    """Asks `state` for the work, then `cache` for the content. Decides nothing. Raises StoreUnavailable for `state`.

    Content that `was_missing` a moment ago is still missing if its work is claimed or promoted now: `state` knows of
    work that was done since. The workers have it the sooner.
    """
    state = claim_state.read_claim_state((yield question))
    if was_missing and isinstance(state, ClaimBegun | ClaimPromoted):
        return LookResult(None, state)
    try:
        content = yield from read_content(content_key, with_body=with_body)
    except StoreUnavailable:
        return LookResult(None, state, cache_is_away=True)
    return LookResult(content, state)


@dataclass(frozen=True, slots=True)
class Serve:
    """Answer with the content. Shared caches may keep `stale` content for a second only."""

    content: Content
    stale: bool
    why: str


@dataclass(frozen=True, slots=True)
class Fail:
    status: int
    detail: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Defer:
    """Let the client wait. The waiting instance keeps it for `least_seconds`, even if there is an answer before.

    `is_running`: the work has begun, so it does not matter any longer who asks for it.
    """

    wait_seconds: float
    why: str
    least_seconds: float = 0
    is_running: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer 503: a wait would bring nothing now."""

    wait_seconds: float
    why: str


Decision = Serve | Fail | Defer | Refuse


@dataclass(frozen=True, slots=True)
class HandOver:
    """Publish the work, with this token. `ours` is True if this process has just made the claim."""

    token: int
    ours: bool


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Abandon the claim: the content was stored in between."""

    token: int


AWAY_SECONDS = 1.0
"""The least wait of a client that comes while `cache` is away: main asks `cache` once in this time."""


def decide_without_cache(state: claim_state.ClaimState) -> Decision:
    """Returns the answer while `cache` is away: content in preparation, or stored a moment ago, is waited for.

    Nothing else is begun: it could not be stored.
    """
    match state:
        case ClaimTaken(_, wait):
            return Defer(max(wait, AWAY_SECONDS), "claimed", AWAY_SECONDS)
        case WorkDone():
            return Defer(AWAY_SECONDS, "done", AWAY_SECONDS)
        case WorkFailed(status, detail, wait):
            return Fail(status, detail, wait)
        case _:
            return Refuse(AWAY_SECONDS, "cache unreachable")


def decide_answer(found: LookResult, version: int, seen: Content | None) -> tuple[Decision, HandOver | TakeBack | None]:
    """Returns the answer, and the action on the claim. `seen` is the content of the look before the claim."""
    content = seen if found.cache_is_away else found.content
    action = _claim_action(found, version, seen)
    if content is not None:
        fresh = content.is_fresh(version)
        return Serve(content, not fresh, "hit" if fresh else found.word), action
    match found.state:
        case ClaimTaken(_, wait, is_running):
            return Defer(wait, found.word, is_running=is_running), action
        case ClaimBegun(_, wait) | ClaimPromoted(_, wait):
            return Defer(wait, found.word), action
        case WorkFailed(status, detail, wait):
            return Fail(status, detail, wait), None
        case WorkDone(outcome, wait) if outcome == LOST or found.cache_is_away:
            return Defer(wait, "done", wait), None
        case WorkDone(_, wait):
            return Refuse(wait, "prepared and gone again"), None
        case LaneFull(wait):
            return Refuse(wait, "backlog full"), None
        case WorkUnknown():  # only a look that does not claim can find this
            return Refuse(1, "nothing known"), None


def _claim_action(found: LookResult, version: int, seen: Content | None) -> HandOver | TakeBack | None:
    match found.state:
        case ClaimBegun(token, _) if found.content is not None and _came_in_between(found.content, version, seen):
            return TakeBack(token)
        case ClaimBegun(is_sent=True) | ClaimPromoted(is_sent=True):
            return None
        case ClaimBegun(token, _):
            return HandOver(token, ours=True)
        case ClaimPromoted(token, _):
            return HandOver(token, ours=False)
        case _:
            return None


def _came_in_between(content: Content, version: int, seen: Content | None) -> bool:
    return content.is_fresh(version) and (seen is None or content.stored_at != seen.stored_at)
