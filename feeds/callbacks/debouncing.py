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


class Debounced:
    """A call that is made once for all who ask for it within `delay_seconds` of the first.

    For those who ask less than `least_seconds` before it, it is made once more, when that is over.
    """

    def __init__(self, call: Callable[[], object], delay_seconds: float, least_seconds: float = 0) -> None:
        self._call, self._delay_seconds, self._least_seconds = call, delay_seconds, least_seconds
        self._lock, self._is_pending, self._asked_at = Lock(), False, 0.0

    def soon(self) -> None:
        """Has it made. Waits for nothing."""
        with self._lock:
            self._asked_at = time.monotonic()
            if self._is_pending:
                return
            self._is_pending = True
        self._make_in(self._delay_seconds)

    def _make_in(self, seconds: float) -> None:
        timer = Timer(seconds, self._make)
        timer.daemon = True
        timer.start()

    def _make(self) -> None:
        with self._lock:  # whoever asks from now on may have come too late for this call
            early_seconds = self._asked_at + self._least_seconds - time.monotonic()
            self._is_pending = early_seconds > 0
        if early_seconds > 0:
            self._make_in(early_seconds + self._delay_seconds - self._least_seconds)
        self._call()


SCAN = Debounced(flagging.ask_for_scan, DELAY_SECONDS)
_COOL_SECONDS = settings.FEEDS_PUSH_COOL_SECONDS
LATER = Debounced(flagging.ask_for_scan, _COOL_SECONDS + DELAY_SECONDS, _COOL_SECONDS)


def ask_for_scan(pushed: Pushed) -> None:
    """Has a scan begin when what was pushed can be taken."""
    match pushed:
        case Pushed.FLAGGED:
            SCAN.soon()
        case Pushed.LATER:
            LATER.soon()
