"""The place of work in its line, and what people are told of it. Decides nothing, and claims nothing.

A lane whose work does not wait in one queue names a function that counts the work before it (lanes.Line).
"""

from dataclasses import dataclass

from . import claims, lanes
from .claim_state import ClaimTaken
from .conf import conf
from .decision import LookResult, look_up_content
from .stores import Steps
from .tickets import Ticket


@dataclass(frozen=True, slots=True)
class TicketState:
    """The state of a ticket's content. `waiting` is a sentence for people while the content is being prepared."""

    found: LookResult
    waiting: str = ""


def load_lines() -> None:
    """Loads the functions of all lanes: the first page that needs one must not hold up all other clients."""
    for lane in conf().RETRY_LANES.values():
        if "line" in lane:
            lanes.load_line(lane["line"])


def look_up_ticket(ticket: Ticket) -> Steps[TicketState]:
    """Looks at the ticket's work and content, and while there is no content, at the place of the work in its line."""
    found = yield from look_up_content(claims.look_call(ticket.work_key), ticket.content_key, with_body=False)
    if found.content is not None or not isinstance(found.state, ClaimTaken):
        return TicketState(found)
    before = yield from find_place(ticket.work_key)
    return TicketState(found, describe_wait(ticket.page or "", before))


def find_place(work_key: str) -> Steps[int | None]:
    """Returns how many works come before this one; None if it is being done, or nothing is known of it."""
    reply = yield claims.place_call(work_key)
    assert isinstance(reply, list)
    if not reply:
        return None
    lane, before = reply[0].decode(), int(reply[1])
    if before < 0:
        return None
    named = conf().RETRY_LANES[lane].get("line") if lane in conf().RETRY_LANES else None
    return (yield from lanes.load_line(named)(work_key)) if named else before


def describe_wait(host: str, before: int | None) -> str:
    """Returns the sentence for people. `host` is the server that is waited for, empty for this site's own work."""
    if host:
        return f"Waiting for {host}." if before is None else f"Waiting for {host}, {before + 1:,} in line."
    return "Work on it has begun." if before is None else f"Waiting, {before + 1:,} in line."
