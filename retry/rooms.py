"""Rooms: who waits for one content, and how a client is told that its wait is over. Looks nothing up."""

import asyncio
from dataclasses import dataclass, field
from enum import Enum

from .tickets import Ticket


class Outcome(Enum):
    READY = "ready"  # go back: there is an answer
    TIME_UP = "time_up"
    CLOSING = "closing"  # this process is shutting down
    GONE = "gone"  # the client has left


@dataclass(slots=True, eq=False)
class Client:
    """One waiting client. `until` is its own limit, in the loop's time."""

    host: str
    ticket: Ticket
    arrived: float
    until: float
    deadline: asyncio.Timeout
    outcome: Outcome = Outcome.TIME_UP
    leaving: bool = False

    def release(self, outcome: Outcome) -> None:
        self.end_at(0, outcome)
        self.leaving = True

    def end_at(self, moment: float, outcome: Outcome) -> None:
        """Sets what happens next, and when. Does nothing for a client that is leaving already."""
        if not self.leaving and not self.deadline.expired():
            self.outcome = outcome
            self.deadline.reschedule(moment)


@dataclass(slots=True, eq=False)
class Room:
    """Those who wait for one content. `settled` while the last look found its work claimed."""

    work_key: str
    content_key: str
    clients: set[Client] = field(default_factory=set)
    settled: bool = False
    asked: bool = False
    lost_at: float | None = None  # since when Redis could not be reached, in the loop's time
