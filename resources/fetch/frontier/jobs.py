"""Jobs of the frontier, and the replies of its scripts about them, as values. Registers the scripts.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast, get_args

from retry import scripts
from retry.errors import StoreUnavailable
from retry.records import frozen_record
from retry.scripts import Reply

scripts.register_scripts(Path(__file__).parent / "lua", "fetch")

FetchLane = Literal["fast", "slow"]
FETCH_LANES: tuple[FetchLane, ...] = get_args(FetchLane)


class JobPriority(IntEnum):
    """Order of domains: those with waiting clients, those flagged as updated, the rest."""

    INTERACTIVE = 1
    FLAGGED = 2
    ORDINARY = 3


FILL, ALIKE = 1.15, 0.5
"""The domain with the most left decides when all is done, once the rest only just fills the slots beside it.

That is when all that is left is no more than its own, times the sum of FILL · slots and the number of due domains with
at least ALIKE as much left. With a lower FILL long jobs begin too late to end with the others; with a higher one short
jobs wait for them.
"""

PATIENCE = 60.0
"""A job waits at most so many times its duration for shorter ones that became due after it."""


@frozen_record
class Waiter:
    """A task call that waits for a job. Several waiters share one job, and each is told of its end.

    `id` names the work; a waiter of the same id with a higher fencing `token` replaces an earlier one.
    `payload` is text (JSON) that the frontier does not read.
    """

    id: str
    payload: str = ""
    token: int = 0


@dataclass(frozen=True, slots=True)
class FetchJob:
    """One URL to be fetched, without a fragment. Jobs of one key share one request.

    `expected_seconds` is the expected duration of the request; None: the mean of its domain.
    `obeys_robots`: it keeps the gap of the domain's robots.txt (unless an admin has set a gap). An unknown robots.txt
    is fetched first. `expires_at` (Unix seconds) is when the URL itself expires. `detail` is text that goes with the
    URL (method, validators). An empty `scope` is chosen by rule. `egress` names the egress of its requests, each with
    limits of its own; empty: the machine's own.
    """

    url: str
    key: str
    waiter: Waiter
    priority: JobPriority = JobPriority.ORDINARY
    lane: FetchLane = "fast"
    expected_seconds: float | None = None
    not_before_seconds: float = 0.0
    expires_at: float | None = None
    obeys_robots: bool = False
    detail: str = ""
    scope: str = ""
    egress: str = ""


def job_key(task: str, identity: str, url: str) -> str:
    """Returns the key of the works of a task that share one request. Canonicalises nothing.

    Works of two tasks share none, since they may ask in other ways, with other secrets, for answers that are
    not for each other. `identity` is as in task.identify_job().
    """
    return sha256("\0".join((task, identity, url)).encode()).hexdigest()


class RateVerdict(Enum):
    """The verdict of a request on its domain's rate. The caller decides on the job."""

    OK = "ok"
    """An answer that speaks for the rate: 2xx, 304."""
    THROTTLED = "throttled"
    """429, or 503 as a refusal: the domain's, not the job's failure. The job is queued again."""
    REFUSED = "refused"
    """An answer about this request alone (404, 410, too big): changes no rate."""
    FAILED = "failed"
    """An answer of a broken host: 5xx, a broken body."""
    UNREACHABLE = "unreachable"
    """No answer: no name, no connection, no time. If several hosts fail so at once, our network counts as away."""
    UNSENT = "unsent"
    """No request was sent. The place in line is given back."""
    AWAY = "away"
    """This machine has no network, or its egress does not work: counts against no host. The egress rests, and is tried
    every two seconds; the job is queued again.
    """


@frozen_record
class RequestReport:
    """The result of one request. `latency_seconds` is the time of the answer's head; without one, of all of it."""

    verdict: RateVerdict
    latency_seconds: float = 0.0
    status: str = ""
    retry_after_seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class JobEnqueued:
    """The job waits in the queue of this scope. Its domain rests for `rest_seconds`."""

    scope: str
    wait_seconds: float
    rest_seconds: float = 0


@dataclass(frozen=True, slots=True)
class JobJoined:
    """A job of that key exists: `queued`, `later`, `running`, `holding` (fetched), `doomed` or `ending`.

    `is_new`: this claim of the work did not wait for it before.
    """

    state: str
    wait_seconds: float
    rest_seconds: float = 0
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class BacklogFull:
    """The backlog of the domain, or of the whole frontier, has no room."""

    wait_seconds: float


@frozen_record
class ClaimedJob:
    """A job to be done now: fetch, report, finish. `version` counts waiters that joined since it was first claimed.

    `needs_robots`: this turn is for the domain's robots.txt, in place of the job: queue.set_crawl_delay(), then
    report that request, and PutJobBack. No other request is sent to the domain meanwhile.

    `starts`: by key, the works that were to start with it, each with its result (retry.claims.STARTED).
    """

    key: str
    token: int
    version: int
    url: str
    detail: str
    scope: str
    host: str
    egress: str
    lane: FetchLane
    priority: JobPriority
    attempts: int
    lapses: int
    needs_robots: bool
    waiters: tuple[Waiter, ...] = field(repr=False)
    starts: Mapping[str, int] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class DeadJob:
    """A dead job: it has failed without a request. Its waiters are told, then it is finished.

    `why` is `expired` (its URL has), `stalled` (its domain had no success for too long) or `lapsed`
    (it lost its fetcher too often).
    """

    job: ClaimedJob
    why: str


@dataclass(frozen=True, slots=True)
class NothingDue:
    """Nothing is due for so long, unless a publish says otherwise."""

    wait_seconds: float


@frozen_record
class JobHeld:
    """The domain's place in flight is free; the job is held, under its lease, until it is finished."""


@frozen_record
class JobEnded:
    """The job is gone."""


@dataclass(frozen=True, slots=True)
class MoreWaiters:
    """Waiters have joined meanwhile: serve them too, then finish with this version."""

    version: int
    waiters: tuple[Waiter, ...]


@dataclass(frozen=True, slots=True)
class JobRequeued:
    """The job is queued again."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class NoRetryBudget:
    """The domain's retries are used up: the job is held, and should fail."""


@dataclass(frozen=True, slots=True)
class JobLost:
    """Another fetcher has the job by now, or it is gone: the fetched content may be kept, nothing else."""


@dataclass(frozen=True, slots=True)
class TurnGranted:
    """The request may be sent in so long: the turn is kept for it. `is_paced`: it is sent as soon as it is allowed."""

    wait_seconds: float
    is_paced: bool = False


@dataclass(frozen=True, slots=True)
class TurnTooFar:
    """No turn was kept: the domain's next turn is too far away, in so long."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class DomainLimits:
    """An admin's limits of a domain. None: as learnt, or by settings."""

    delay_seconds: float | None = None
    in_flight: int | None = None
    bytes_per_second: int | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The number of fetchers and of machines, and the machines that have no network by some egress.

    `owner` is the fetcher that claims the jobs of the domain; empty if none does, or no domain was named.
    """

    fetchers: int
    machines: int
    without_network: tuple[str, ...] = ()
    owner: str = ""


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The limits of a domain in the frontier, and the scope they count for (empty: by rule)."""

    limits: DomainLimits
    counted_by: str


def parse_enqueued(reply: Reply) -> JobEnqueued | JobJoined | BacklogFull:
    """Parses the reply of enqueue.lua for one job."""
    match parse_texts(reply):
        case ["queued", scope, wait_ms, rest_ms]:
            return JobEnqueued(scope, float(wait_ms) / 1000, float(rest_ms) / 1000)
        case ["joined", state, wait_ms, rest_ms, is_new]:
            return JobJoined(state, float(wait_ms) / 1000, float(rest_ms) / 1000, is_new=is_new == "1")
        case [_, wait_ms]:
            return BacklogFull(float(wait_ms) / 1000)
    raise ValueError(f"enqueue.lua does not reply {reply!r}")


def parse_claimed(reply: Reply) -> list[ClaimedJob | DeadJob | NothingDue]:
    """Parses the reply of claim.lua."""
    parts = iter(cast(list[Any], reply))
    return [
        NothingDue(next(parts) / 1000) if how == b"idle" else _parse_one_claimed(how, islice(parts, 5)) for how in parts
    ]


def _parse_one_claimed(how: bytes, parts: Iterable[Any]) -> ClaimedJob | DeadJob:
    token, version, record, flat_waiters, starts = parts
    *texts, priority, attempts, lapses, needs_robots, why = record
    key, url, detail, scope, host, egress, lane = [text.decode() for text in texts]
    waiters = _parse_waiters(flat_waiters)
    job = ClaimedJob(
        key=key,
        token=int(token),
        version=int(version),
        url=url,
        detail=detail,
        scope=scope,
        host=host,
        egress=egress,
        lane=cast(FetchLane, lane),
        priority=JobPriority(priority),
        attempts=attempts,
        lapses=lapses,
        needs_robots=needs_robots == b"1",
        waiters=waiters,
        starts={waiter.id: start for waiter, start in zip(waiters, starts, strict=False)},  # none for robots.txt
    )
    return job if how == b"claimed" else DeadJob(job, why.decode())


JobAfterReport = JobHeld | JobEnded | MoreWaiters | JobRequeued | NoRetryBudget | JobLost


def parse_only(reply: Reply) -> Reply:
    """Returns the reply for the one item of a call. Raises StoreUnavailable for its error."""
    [found] = cast(list[Reply], reply)
    if isinstance(found, Exception):
        raise StoreUnavailable(f"state: {found}")
    return found


def parse_reported(reply: Reply) -> tuple[bool, JobAfterReport]:
    """Parses the reply of report.lua: True if a work ended, and the state of the job."""
    ended, *parts = cast(list[Any], reply)
    return ended == 1, _parse_job_after_report(parts)


def _parse_job_after_report(parts: list[Any]) -> JobAfterReport:
    match parts[0]:
        case b"held":
            return JobHeld()
        case b"again":
            return JobRequeued(float(parts[1]) / 1000)
        case b"refused":
            return NoRetryBudget()
    return parse_finished(parts)


def parse_finished(reply: Reply) -> JobEnded | MoreWaiters | JobLost:
    """Parses the reply of finish.lua."""
    parts = cast(list[Any], reply)
    match parts[0]:
        case b"ended":
            return JobEnded()
        case b"more":
            return MoreWaiters(int(parts[1]), _parse_waiters(parts[2]))
    return JobLost()


def parse_limits_in_force(reply: Reply) -> list[LimitsInForce]:
    """Parses the reply of limits.lua: five texts for each domain, empty if nothing is set."""
    return [_parse_limits(*(part.decode() for part in parts)) for parts in cast(list[list[bytes]], reply)]


def parse_texts(reply: Reply) -> list[str]:
    return [part.decode() for part in cast(list[bytes], reply)]


def parse_fields(flat: Reply) -> dict[str, str]:
    """Returns a hash from names and values in turn."""
    parts = parse_texts(flat)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _parse_limits(delay_ms: str, cap: str, most_bytes: str, paused: str, counted_by: str) -> LimitsInForce:
    limits = DomainLimits(
        delay_seconds=float(delay_ms) / 1000 if delay_ms else None,
        in_flight=int(float(cap)) if cap else None,
        bytes_per_second=int(float(most_bytes)) if most_bytes else None,
        paused=paused == "1",
    )
    return LimitsInForce(limits, counted_by)


def _parse_waiters(flat: Reply) -> tuple[Waiter, ...]:
    """Parses `<token> <payload>` by id."""
    parts, found = iter(parse_texts(flat)), list[Waiter]()
    for name, value in zip(parts, parts, strict=True):
        token, _, payload = value.partition(" ")
        found.append(Waiter(name, payload, int(token)))
    return tuple(found)
