"""Does once, a moment later, what is asked for many times: hundreds of pings at once ask for one scan, not for each.

In a thread, so that no request waits for it. What dies with its process, the next scan by the clock makes good.
"""

import time
from collections.abc import Callable
from threading import Lock, Timer

from django.conf import settings

from ..keeping import flagging
from ..keeping.pushes import Pushed

DELAY_SECONDS = 0.6
"""As long as the front takes to let a few hundred pings through: what they tell of is not stored between them."""
MOST_PENDING = 20
"""Calls that are to come, where they are made long after they were asked for: each has a thread."""


class Debounced:
    """A call that is made once for all who ask for it within `together_seconds` of the first, `wait_seconds` later."""

    def __init__(self, call: Callable[[], object], together_seconds: float, wait_seconds: float = 0) -> None:
        self._call, self._together_seconds, self._wait_seconds = call, together_seconds, wait_seconds
        self._lock, self._until = Lock(), 0.0

    def soon(self) -> None:
        """Has it made, at the earliest `wait_seconds` from now on. Waits for nothing."""
        with self._lock:
            now = time.monotonic()
            if now < self._until:
                return
            self._until = now + self._together_seconds
        timer = Timer(self._together_seconds + self._wait_seconds, self._call)
        timer.daemon = True
        timer.start()


SCAN = Debounced(flagging.ask_for_scan, DELAY_SECONDS)
_COOL_SECONDS = settings.FEEDS_PUSH_COOL_SECONDS
LATER = Debounced(flagging.ask_for_scan, max(DELAY_SECONDS, _COOL_SECONDS / MOST_PENDING), _COOL_SECONDS)


def ask_for_scan(pushed: Pushed) -> None:
    """Has a scan begin when what was pushed can be taken."""
    match pushed:
        case Pushed.FLAGGED:
            SCAN.soon()
        case Pushed.LATER:
            LATER.soon()
