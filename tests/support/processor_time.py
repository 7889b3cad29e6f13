"""Bounds on the processor time of the tested code, which a busy machine does not change."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends a body that takes longer, a regular expression in the middle, and fails. For the main thread."""

    def end(*_: object) -> None:
        pytest.fail(f"It takes more than {seconds} seconds of processor time.")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
