"""How fast servers have sent, as one fetcher has seen it: what is known of a body's time before it is read. PURE."""

from collections import OrderedDict

from ..outcomes import Timing

LEAST_BYTES = 65_536
"""Smaller bodies tell of delays, not of speed."""
MOST_KNOWN = 10_000
SHARE = 0.3
"""The weight of the last body in the mean."""


class Speeds:
    """By domain, bytes a second: a mean in which older bodies count less and less. The least recent are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, float] = OrderedDict()

    def note(self, scope: str, timing: Timing) -> None:
        """What one fetch says, if it says anything."""
        seconds = timing.seconds - (timing.head_seconds or 0)
        if timing.wire_bytes < LEAST_BYTES or timing.head_seconds is None or seconds <= 0:
            return
        speed = timing.wire_bytes / seconds
        before = self._known.pop(scope, speed)
        self._known[scope] = before * (1 - SHARE) + speed * SHARE
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def of(self, scope: str) -> float | None:
        return self._known.get(scope)
