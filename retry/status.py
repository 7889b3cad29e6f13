"""The status address (`Prefer: respond-async`): how content stands, told without waiting for it."""

import json
import time
from datetime import UTC, datetime

from . import headers, standings
from .conf import conf
from .looking import Found
from .replies import Reply, problem
from .tickets import Ticket, status_address


def accepted(ticket: Ticket, wait_seconds: float, *, why: str = "status", preference: str = "") -> Reply:
    """202: it is being prepared, and here is where to ask how it stands. `preference` is what was applied."""
    address = status_address(ticket, conf().RETRY_AFTER_SERVER)
    body = {
        "state": "preparing",
        "expected": datetime.fromtimestamp(time.time() + wait_seconds, UTC).isoformat(timespec="seconds"),
        "status": address,
        "content": ticket.redirect,
    }
    again_seconds = conf().again_seconds(wait_seconds)
    fields = headers.uncached(f"Tarry; fwd=miss; detail={why}", again_seconds) | headers.applied(preference)
    return Reply(
        202, {**fields, "Content-Type": "application/json", "Location": address}, json.dumps(body).encode() + b"\n"
    )


def status(ticket: Ticket, found: Found | Exception) -> Reply:
    """How the content stands: being prepared, failed, or an answer is at its own address.

    What nothing is known of is sent to its address, too: asked for there, it is prepared anew.
    """
    match found:
        case Found(content=content) if content is not None:
            return _see_other(ticket, "ready")
        case Found(standing=standings.Failed(code, detail, wait_seconds)):
            return problem(code, detail, wait_seconds=wait_seconds)
        case Exception():
            return problem(503, "How it stands cannot be told now.", wait_seconds=1)
        case Found(standing=standings.Claimed(_, wait_seconds)):
            return accepted(ticket, wait_seconds)
        case Found():
            return _see_other(ticket, found.word)


def _see_other(ticket: Ticket, why: str) -> Reply:
    return Reply(303, {**headers.uncached(f"Tarry; fwd=miss; detail={why}"), "Location": ticket.redirect})
