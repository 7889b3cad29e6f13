"""How far a run has come: rate, and the time that is left. PURE. Times are monotonic seconds, passed in."""

from dataclasses import dataclass, field

from .estimating import in_seconds

REMEMBERED_SECONDS = 60.0
"""The rate is that of the last so many seconds."""


@dataclass(slots=True)
class Progress:
    """Pieces that are settled of so many in all (None: not known), tiles that were prepared, and when."""

    total: int | None
    began: float
    settled: int = 0
    tiles: int = 0
    _moments: list[tuple[float, int, int]] = field(default_factory=list)

    def settle(self, tiles: int, now: float) -> None:
        """Another piece is settled, for which so many tiles were prepared: none when it was skipped."""
        self.settled += 1
        self.tiles += tiles
        if not self._moments or now - self._moments[-1][0] >= 1.0:
            self._moments.append((now, self.settled, self.tiles))
            while len(self._moments) > 2 and now - self._moments[1][0] > REMEMBERED_SECONDS:
                del self._moments[0]

    def tiles_per_second(self, now: float) -> float:
        """Of late."""
        then, _, tiles = self._since()
        return (self.tiles - tiles) / max(now - then, 0.001)

    def seconds_left(self, now: float) -> float | None:
        """None as long as nothing can be said."""
        then, settled, _ = self._since()
        if self.total is None or self.settled <= settled or now <= then:
            return None
        return max(0, self.total - self.settled) * (now - then) / (self.settled - settled)

    def describe(self, now: float) -> str:
        """`1,200 of 5,461, 310 tiles/s, 14 s left`."""
        of = "" if self.total is None else f" of {max(self.total, self.settled):,}"
        left = self.seconds_left(now)
        return (
            f"{self.settled:,}{of} pieces, {self.tiles_per_second(now):,.1f} tiles/s"
            f"{'' if left is None else f', about {in_seconds(left)} left'}"
        )

    def _since(self) -> tuple[float, int, int]:
        return self._moments[0] if len(self._moments) > 1 else (self.began, 0, 0)
