"""An origin with undisclosed limits, in simulated time, and the requests that it saw."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Origin:
    """A token bucket of `rate` a second and `burst`, and `most_at_once` requests. Answers 429 beyond either.

    It keeps a log: all times are seconds, `refused` and `taken` those of the requests' arrivals.
    """

    rate: float
    latency: float = 0.1
    burst: float = 2.0
    most_at_once: int = 100
    retry_after: float = 0.0
    taken: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    at_once: int = 0
    peak: int = 0
    forbidden_until: float = -1.0
    too_early: int = 0
    _tokens: float = 1.0
    _filled: float = 0.0

    def take(self, now: float) -> bool:
        """Takes a request. Returns True if it is served."""
        self._tokens = min(self.burst, self._tokens + (now - self._filled) * self.rate)
        self._filled = now
        self.at_once += 1
        self.peak = max(self.peak, self.at_once)
        self.too_early += now < self.forbidden_until
        if self._tokens < 1 or self.at_once > self.most_at_once:
            self.refused.append(now)
            self.forbidden_until = max(self.forbidden_until, now + self.retry_after)
            return False
        self._tokens -= 1
        self.taken.append(now)
        return True

    def left(self) -> None:
        self.at_once -= 1

    def served_between(self, start: float, end: float) -> int:
        return sum(start <= moment < end for moment in self.taken)

    def refused_between(self, start: float, end: float) -> int:
        return sum(start <= moment < end for moment in self.refused)
