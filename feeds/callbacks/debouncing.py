"""Does once, a moment later, what is asked for many times: hundreds of pings at once ask for one scan, not for each.

In a thread, so that no request waits for it. What dies with its process, the next scan by the clock makes good.
"""

from collections.abc import Callable
from threading import Lock, Timer

from django.conf import settings

from ..keeping import flagging
from ..keeping.pushes import Pushed

DELAY_SECONDS = 0.6
"""As long as the front takes to let a few hundred pings through: what they tell of is not stored between them."""


class Debounced:
    """A call that is made once for all who ask for it within `delay_seconds` of the first."""

    def __init__(self, call: Callable[[], object], delay_seconds: float) -> None:
        self._call, self._delay_seconds = call, delay_seconds
        self._lock, self._is_pending = Lock(), False

    def soon(self) -> None:
        """Has it made. Waits for nothing."""
        with self._lock:
            if self._is_pending:
                return
            self._is_pending = True
        timer = Timer(self._delay_seconds, self._make)
        timer.daemon = True
        timer.start()

    def _make(self) -> None:
        with self._lock:  # whoever asks from now on may have come too late for this call
            self._is_pending = False
        self._call()


SCAN = Debounced(flagging.ask_for_scan, DELAY_SECONDS)
LATER = Debounced(flagging.ask_for_scan, settings.FEEDS_PUSH_COOL_SECONDS + DELAY_SECONDS)


def ask_for_scan(pushed: Pushed) -> None:
    """Has a scan begin when what was pushed can be taken."""
    match pushed:
        case Pushed.FLAGGED:
            SCAN.soon()
        case Pushed.LATER:
            LATER.soon()
