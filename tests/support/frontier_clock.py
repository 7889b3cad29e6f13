"""A clock for the frontier's scripts that tests move by hand."""

from random import Random

import pytest

from resources.fetch.frontier import queue

START_MS = 1_800_000_000_000.0


class Clock:
    """Redis' time, as the scripts are told it, and always the same luck. Seconds since the start are `seconds`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        real = queue._rules_json
        monkeypatch.setattr(queue, "random", Random(1))
        monkeypatch.setattr(queue, "_rules_json", lambda: f'{{"now":{self.ms:.3f},{real()[1:]}')

    @property
    def ms(self) -> float:
        return START_MS + self.seconds * 1000

    @property
    def unix(self) -> float:
        return self.ms / 1000

    def pass_by(self, seconds: float) -> None:
        self.seconds += seconds
