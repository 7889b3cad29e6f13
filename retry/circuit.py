"""A circuit breaker: after an error, fail at once for a while instead of waiting again. PURE."""

from dataclasses import dataclass, field
from threading import Lock


@dataclass(slots=True)
class Breaker:
    """One per process and server. Does not make calls; times are monotonic seconds.

    Closed, every call goes through. A failure opens it for `rest_seconds`; after that one call
    is let through to try, and everyone else goes on failing fast until it has succeeded.
    """

    rest_seconds: float = 1.0
    _open_until: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def allows(self, now: float) -> bool:
        if not self._open_until:
            return True
        with self._lock:
            if now < self._open_until:
                return False
            self._open_until = now + self.rest_seconds  # this caller tries; the others rest on
            return True

    def failed(self, now: float) -> bool:
        """Opens it, or keeps it open; whether it was closed until now."""
        with self._lock:
            was_closed = not self._open_until
            self._open_until = now + self.rest_seconds
            return was_closed

    def succeeded(self) -> None:
        self._open_until = 0.0
