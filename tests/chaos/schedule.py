"""Runs faults one after the other, with a recovery after each, and keeps their times."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .faults import BACK_SECONDS, Fault, Seen
from .steady import Record
from .world import World

QUIET_SECONDS = 2
"""The time without a bad answer after which the site counts as well."""
PATIENCE_SECONDS = 60
"""The limit for a recovery. A longer one is a violation."""
NO_TIME = "no time was left"


class OutOfTime(Exception):
    """The run has exceeded its time limit."""


@dataclass(frozen=True, slots=True)
class Suffered:
    """A fault that was made, in seconds of the monotonic clock: it held from `began` to `ended`.

    `recovered` is the end of the last visit with a bad answer, `ended` if there was none, None when it was too late;
    `over` the earliest begin of the next fault. A fault that was not made has `skipped`, the reason. `effect` is the
    visible effect; one that was made without effect has `missing`, the effect that it lacked.
    """

    fault: Fault
    began: float = 0
    ended: float = 0
    recovered: float | None = None
    over: float = 0
    skipped: str = ""
    effect: str = ""
    missing: str = ""

    @property
    def seconds(self) -> float | None:
        """From the end of the fault to the recovery."""
        return None if self.recovered is None else self.recovered - self.ended


def run(world: World, faults: Sequence[Fault], seconds: float, told: Callable[[str], object]) -> list[Suffered]:
    """Makes the faults for which there is time, the longest recovery included."""
    until = time.monotonic() + seconds
    assert _recovery(world, time.monotonic()) is not None, "the site is not well, and nothing has been done to it yet"
    suffered = []
    for fault in faults:
        one = _skipped(world, fault, until) or _suffer(world, fault)
        told(f"{fault.name}: {one.skipped or _words(one)}")
        suffered.append(one)
    return suffered


def _skipped(world: World, fault: Fault, until: float) -> Suffered | None:
    if fault.lacks:
        return Suffered(fault, skipped=fault.lacks)
    if world.client.died:
        return Suffered(fault, skipped="the client died")
    if time.monotonic() + fault.seconds + PATIENCE_SECONDS + BACK_SECONDS > until:
        return Suffered(fault, skipped=NO_TIME)
    return None


def _suffer(world: World, fault: Fault) -> Suffered:
    began = time.monotonic()
    with fault.holding(world) as seen:
        time.sleep(fault.seconds)
    ended = time.monotonic()
    recovered = _recovery(world, ended)
    effect, missing = _effect(seen)
    return Suffered(fault, began, ended, recovered, time.monotonic(), effect=effect, missing=missing)


def _effect(seen: Seen) -> tuple[str, str]:
    try:
        return seen(), ""
    except AssertionError as error:
        return "", str(error)


def _words(suffered: Suffered) -> str:
    recovered = "not recovered" if suffered.seconds is None else f"recovered after {suffered.seconds:.1f} s"
    return f"{suffered.effect or f'WITHOUT EFFECT: {suffered.missing}'}; {recovered}"


def _recovery(world: World, ended: float) -> float | None:
    """Waits until the site is well again. Returns the time of the recovery, None after PATIENCE_SECONDS."""
    while time.monotonic() < ended + PATIENCE_SECONDS:
        time.sleep(0.1)
        bad = [record.ended for record in world.client.records if record.is_bad]
        last = max([ended, *bad])
        if time.monotonic() > last + QUIET_SECONDS and _is_well(world, last):
            return last
    return None


def _is_well(world: World, since: float) -> bool:
    """Tells whether all earlier questions have ended, later ones of each kind too, and the site is healthy."""
    answered = {record.kind for record in world.client.records if record.began >= since}
    ended = world.client.waits_since >= since
    return ended and answered >= set(world.client.kinds) and world.stack.health()[0] == 200


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises OutOfTime in a body that takes longer. For the main thread only."""

    def end(*_: object) -> None:
        raise OutOfTime(f"Not done within {seconds:.0f} s.")

    before = signal.signal(signal.SIGALRM, end)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def during(suffered: Suffered, records: Sequence[Record]) -> list[Record]:
    """The visits that ran while the fault held, and those that began and ended before the next one."""
    met = [record for record in records if record.ended >= suffered.began]
    return [record for record in met if record.began <= suffered.ended or record.ended < suffered.over]
