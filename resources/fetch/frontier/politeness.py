"""Politeness: its numbers, and the verdict of an outcome on its domain and on its job.

The rate itself is learnt in lua/parts/politeness.lua.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from dataclasses import asdict, dataclass

from ..http.limit_scopes import url_scopes
from ..http.messages import Failure, FetchFailed, Outcome, OutcomeTiming
from ..http.retry_policy import UNCOUNTED_FAILURES
from .jobs import ALIKE, FILL, PATIENCE, ClaimedJob, DeadJob, RateVerdict, RequestReport


@dataclass(frozen=True, slots=True, eq=False)
class Politeness:
    """The treatment of a domain, and the bounds of the backlog. Durations are in seconds.

    Rates are learnt as gaps between requests: a refusal makes the gap `cut` times as long, or `near_cut` times
    if about that gap was refused before, once for each event. Before any refusal a success makes it shorter by
    `first_step` of it. The refused gap is the mean gap, in which the last one has `mean_share`. The gap comes
    back to `margin` times that in `back_requests` (to `asked_margin` times it after a Retry-After), and is
    probed past it the further the longer nothing is refused: the scale of that is the longest of `probe_seconds`, of
    `probe_requests` at that gap, and of `probe_asked` times the Retry-After (of which `most_asked_seconds` counts).
    The number in flight grows by `cap_step` ÷ cap for each success while others waited for room.
    A refused number is tried again after `cap_probe_requests` of these, and the more seldom the more often in vain.
    Where several may be in flight, the gap is at least `answer_share` of the time of the answers ÷ their number.

    `least_delay_seconds` and `most_in_flight` are the ceilings of learnt rates, not of an admin's.
    """

    delay_seconds: float = 0.5
    least_delay_seconds: float = 0.1
    most_delay_seconds: float = 60
    in_flight: int = 2
    most_in_flight: int = 4
    bytes_per_second: int = 10_000_000
    most_retry_after_seconds: float = 86_400

    cut: float = 1.6
    near_cut: float = 1.25
    first_step: float = 0.05
    mean_share: float = 0.1
    margin: float = 1.03
    asked_margin: float = 1.06
    back_requests: int = 20
    probe_seconds: float = 10
    probe_requests: int = 250
    probe_asked: float = 22
    most_asked_seconds: float = 300
    cap_step: float = 0.25
    cap_probe_requests: int = 32
    answer_share: float = 0.25

    slots: int = 100
    fill: float = FILL
    alike: float = ALIKE
    patience: float = PATIENCE
    """The order of domains. `slots` are those of one fetcher."""

    expected_seconds: float = 1
    slow_after_seconds: float = 10
    took_share: float = 0.2
    """A request of an unknown domain is expected to take `expected_seconds`. A domain whose requests take
    `slow_after_seconds`, in a mean in which the last one has that share, is fetched in the slow lane. The mean time of
    its answers is such a mean too.
    """

    lease_seconds: float = 15
    most_lapses: int = 2
    lapse_kept_seconds: float = 900
    """A job that has lost its fetcher `most_lapses` times, each within that time after the last, fails."""

    backlog: int = 100_000
    domain_backlog: int = 10_000
    stall_seconds: float = 86_400
    retry_budget: float = 10
    retry_share: float = 0.1
    """Each request earns so much of a retry, up to the budget."""

    failures_to_open: int = 5
    circuit_seconds: float = 30
    most_circuit_seconds: float = 3600

    outage_hosts: int = 4
    outage_window_seconds: float = 20
    outage_try_seconds: float = 2
    outage_seconds: float = 3600
    """Hosts that answered in that time and that cannot be reached, within the window: our network is away."""

    paused_seconds: float = 60
    """Time after which work of a domain that an admin has paused is tried again."""

    kept_seconds: float = 30 * 86_400
    brief_kept_seconds: float = 86_400
    """Time for which a domain's record is kept after its last request; and that of one without refusals that only
    redirects lead to.
    """

    most_domains: int = 20_000
    most_evidence: int = 500
    most_slow: int = 10_000
    slow_kept_seconds: float = 7 * 86_400
    """The most domains on record (and those with jobs or an admin's limits), registrable domains with refusals of
    a day, and slow URLs, each known for that time. Strangers' redirects and lists name any number of them.
    """


def script_rules(politeness: Politeness) -> dict[str, float]:
    """Returns the numbers for the scripts, durations in milliseconds: `lease_ms` for `lease_seconds`."""
    return {
        name.replace("_seconds", "_ms"): number * 1000 if name.endswith("_seconds") else number
        for name, number in asdict(politeness).items()
    }


FAILURES_OF_ONE_URL = frozenset(
    {Failure.PERMANENT, Failure.REFUSED, Failure.TOO_BIG, Failure.POSTPONED, Failure.EXPIRED}
)
"""Failures of one address alone, or of its redirects: its host works."""


def build_report(outcome: Outcome) -> RequestReport:
    """Returns the report to the domain. A failure behind a redirect says nothing of the domain that redirected."""
    wait_seconds = 0.0
    if not isinstance(outcome, FetchFailed):
        verdict, status = RateVerdict.OK, str(outcome.head.status)
    elif failed_elsewhere(outcome):
        verdict, status = RateVerdict.REFUSED, str(outcome.hops[-1].status)
    else:
        verdict, status = _verdict_on_failure(outcome), str(outcome.status or outcome.failure.value)
        wait_seconds = outcome.retry_after_seconds or 0.0
    timing = outcome.timing
    # The first answer is the domain's own. Later ones are of other hosts, or come after a wait for the domain's turn.
    latency_seconds = timing.answer_seconds[0] if timing.answer_seconds else timing.seconds
    return RequestReport(verdict, latency_seconds, status, wait_seconds, timing.wire_bytes)


def _verdict_on_failure(failed: FetchFailed) -> RateVerdict:
    if failed.failure is Failure.THROTTLED:
        return RateVerdict.THROTTLED
    if failed.failure is Failure.OURS:
        return RateVerdict.AWAY
    if not failed.url and not failed.hops:  # no request was sent
        return RateVerdict.UNSENT
    if failed.failure is Failure.REFUSED and failed.status is None:  # by the guard: no connection was made
        return RateVerdict.UNSENT
    if failed.status is None:
        return RateVerdict.UNREACHABLE
    return RateVerdict.REFUSED if failed.failure in FAILURES_OF_ONE_URL else RateVerdict.FAILED


def failed_elsewhere(failed: FetchFailed) -> bool:
    """Tells whether it failed at another host than the first one."""
    return bool(failed.hops) and failed.url != "" and url_scopes(failed.url).host != url_scopes(failed.hops[0].url).host


def was_put_off(outcome: Outcome) -> bool:
    """Tells whether no request was sent: the host had asked for time since the job was claimed."""
    return isinstance(outcome, FetchFailed) and outcome.failure is Failure.POSTPONED and not outcome.hops


def was_quick(job: ClaimedJob, outcome: Outcome, slow_after_seconds: float) -> bool:
    """Tells whether a job of the slow lane does not belong there."""
    succeeded = not isinstance(outcome, FetchFailed)
    return job.lane == "slow" and succeeded and outcome.timing.seconds < slow_after_seconds


def counts_as_attempt(outcome: Outcome) -> bool:
    """True if it counts as an attempt of the job. Refusals and resting hosts are not the job's failure."""
    return not isinstance(outcome, FetchFailed) or outcome.failure not in UNCOUNTED_FAILURES


DEAD_JOB_FAILURES = {
    "expired": (Failure.EXPIRED, "the signature in its address has run out"),
    "stalled": (Failure.THROTTLED, "its server has let nothing through for too long"),
    "lapsed": (Failure.OURS, "it has ended its fetcher twice"),
}


def dead_job_failure(dead: DeadJob, at: float) -> FetchFailed:
    """Returns the failure of a dead job, at that Unix time."""
    failure, detail = DEAD_JOB_FAILURES[dead.why]
    return FetchFailed(failure, detail, OutcomeTiming(at, 0))
