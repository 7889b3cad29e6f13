"""When a subscription is asked for, asked for again, and given up, and why then. PURE."""

from enum import Enum


class State(Enum):
    """How a subscription stands."""

    WANTED = "wanted"
    """Asked for, or about to be; pushes are not known to come."""
    VERIFIED = "in force"
    DENIED = "denied"
    """The server does not want it. Tried again, seldom."""
    LEAVING = "leaving"
    """To be taken back."""
    ENDED = "ended"


ENDED_STATES = (State.LEAVING.value, State.ENDED.value)
"""Those of subscriptions that nothing is taken from any more."""
