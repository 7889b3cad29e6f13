"""What an outcome says of its domain, and whether the job is tried again. PURE."""

from collections.abc import Callable

from ..addressing.scopes import scopes
from ..outcomes import Failed, Failure, Outcome, Timing
from ..queues.jobs import Claimed, Doomed, Report, Verdict
from ..transport.giving_up import UNCOUNTED, Again, GiveUp, Patience, next_step

DOOMS = {
    "expired": (Failure.EXPIRED, "the signature in its address has run out"),
    "stalled": (Failure.THROTTLED, "its server has let nothing through for too long"),
    "lapsed": (Failure.OURS, "it has ended its fetcher twice"),
}

OF_ONE_ADDRESS = frozenset({Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.POSTPONED, Failure.EXPIRED})
"""What an answer says of one address alone, or of where it leads: its host works."""


def report_of(outcome: Outcome) -> Report:
    """What the domain learns from it. What a redirect led to says nothing of the domain that sent there."""
    timing = outcome.timing
    latency_seconds = timing.seconds if timing.head_seconds is None else timing.head_seconds
    if not isinstance(outcome, Failed):
        return Report(Verdict.OK, latency_seconds, str(outcome.head.status), bytes=timing.wire_bytes)
    if was_elsewhere(outcome):
        return Report(Verdict.REFUSED, latency_seconds, str(outcome.hops[-1].status), bytes=timing.wire_bytes)
    status = outcome.failure.value if outcome.status is None else str(outcome.status)
    wait_seconds = outcome.retry_after_seconds or 0.0
    return Report(_verdict(outcome), latency_seconds, status, wait_seconds, timing.wire_bytes)


def was_elsewhere(failed: Failed) -> bool:
    """Whether it failed at another host than the one that was asked first."""
    return bool(failed.hops) and failed.url != "" and scopes(failed.url).host != scopes(failed.hops[0].url).host


def was_put_off(outcome: Outcome) -> bool:
    """Whether nothing was asked: the host had asked for time since the job was claimed."""
    return isinstance(outcome, Failed) and outcome.failure is Failure.POSTPONED and not outcome.hops


def was_quick(job: Claimed, outcome: Outcome, slow_after_seconds: float) -> bool:
    """Whether a job of the slow lane does not belong there."""
    succeeded = not isinstance(outcome, Failed)
    return job.lane == "slow" and succeeded and outcome.timing.seconds < slow_after_seconds


def counts(outcome: Outcome) -> bool:
    """Whether it is an attempt of the job. What rests elsewhere, and what refuses, is not the job's failure."""
    return not isinstance(outcome, Failed) or outcome.failure not in UNCOUNTED


def step_after(
    outcome: Outcome, *, attempts: int, patience: Patience, random: Callable[[], float]
) -> Again | GiveUp | None:
    """Whether to try again after `attempts` that count, this one included. None: there is something."""
    if not isinstance(outcome, Failed):
        return None
    # How long refusals and troubles of our own may hold it up in all is the frontier's to say: it dooms what stalls.
    return next_step(
        outcome.failure,
        attempts=attempts,
        waited_seconds=0,
        retry_after_seconds=outcome.retry_after_seconds,
        patience=patience,
        random=random,
    )


def failure_of(doomed: Doomed, at: float) -> Failed:
    """What a job that has failed without a request is told to be, at that Unix time."""
    failure, detail = DOOMS[doomed.why]
    return Failed(failure, detail, Timing(at, 0))


def _verdict(failed: Failed) -> Verdict:
    if failed.failure is Failure.THROTTLED:
        return Verdict.THROTTLED
    if failed.failure is Failure.OURS:
        return Verdict.AWAY
    if not failed.url and not failed.hops:  # nothing was ever asked
        return Verdict.UNSENT
    if failed.failure is Failure.REFUSED and failed.status is None:  # by the guard: nobody was connected to
        return Verdict.UNSENT
    if failed.status is None:
        return Verdict.UNREACHABLE
    return Verdict.REFUSED if failed.failure in OF_ONE_ADDRESS else Verdict.FAILED
