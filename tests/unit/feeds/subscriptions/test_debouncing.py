"""Many ask, one call is made, after all of them."""

import random
from collections.abc import Callable
from threading import Event
from unittest.mock import Mock

import pytest

from feeds.subscriptions import views
from feeds.subscriptions.views import DebouncedCall

WAIT_SECONDS = 10


def test_many_who_ask_at_once_have_it_called_once_and_who_asks_during_the_call_has_it_called_again() -> None:
    begun, go_on, ended = Event(), Event(), Event()
    calls: list[int] = []

    def call() -> None:
        calls.append(len(calls))
        begun.set()
        if len(calls) > 1:
            ended.set()
        assert go_on.wait(WAIT_SECONDS)

    debounced = DebouncedCall(call, 0.02)
    for _ in range(100):
        debounced.soon()
    assert begun.wait(WAIT_SECONDS)
    assert calls == [0]
    debounced.soon()
    go_on.set()
    assert ended.wait(WAIT_SECONDS)
    assert calls == [0, 1]


class Clock:
    """A time of its own, and the timers that are set in it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, Callable[[], object]]] = []

    def timer(self, seconds: float, call: Callable[[], object]) -> Mock:
        self._due.append((self.now + seconds, call))
        return Mock()

    def to(self, now: float) -> None:
        """Calls due pings until then."""
        while due := [each for each in self._due if each[0] <= now]:
            first = min(due, key=lambda each: each[0])
            self._due.remove(first)
            self.now, call = first
            call()
        self.now = now


def test_who_asks_during_a_cool_down_is_scanned_for_when_that_is_over_however_many_ask_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, luck, made = Clock(), random.Random(7), list[float]()
    monkeypatch.setattr(views, "Timer", clock.timer)
    monkeypatch.setattr(views, "time", Mock(monotonic=lambda: clock.now))
    real = views.LATER_SCAN_CALL
    later = DebouncedCall(lambda: made.append(clock.now), real._together_seconds, real._wait_seconds)
    asked = sorted(clock.now + luck.uniform(0, 60) for _ in range(300))
    for at in asked:
        clock.to(at)
        later.soon()
    clock.to(2000)
    assert all(any(14.999 < call - at < 16 for call in made) for at in asked)
    assert len(made) < 90
