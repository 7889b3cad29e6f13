"""Hands work to the fetchers: claims it, puts it into the frontier, and returns the outcome.

`claim_and_enqueue` is for passes over rows. `publish` is the publisher of all lanes whose work is fetched
(RETRY_LANES).
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from retry import claim_state, claims, stores
from retry.claim_state import ClaimBegun, ClaimPromoted, ClaimState, ClaimTaken, LaneFull, WorkDone, WorkFailed
from retry.conf import conf
from retry.errors import QueueUnavailable, StoreUnavailable
from retry.work import Argument, Work

from . import conf as fetch_conf
from .frontier import queue
from .frontier.jobs import BacklogFull, FetchJob, FetchLane, JobEnqueued, JobJoined, JobPriority, Waiter, job_key
from .http import limit_scopes, url_syntax
from .http.limit_scopes import url_scopes
from .task import TaskCall, identify_job

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class LaneMapping:
    """The lane and the priority in the frontier of a lane of the deferral protocol."""

    lane: FetchLane
    priority: JobPriority


LANE_MAPPINGS = {
    "fetch.fast": LaneMapping("fast", JobPriority.INTERACTIVE),
    "fetch.slow": LaneMapping("slow", JobPriority.INTERACTIVE),
    "fetch.refresh": LaneMapping("fast", JobPriority.ORDINARY),
    "fetch.ingest": LaneMapping("fast", JobPriority.ORDINARY),
    "fetch.large": LaneMapping("slow", JobPriority.ORDINARY),
    "fetch.calls": LaneMapping("fast", JobPriority.ORDINARY),
    "fetch.supplements": LaneMapping("fast", JobPriority.ORDINARY),
    "fetch.feeds": LaneMapping("fast", JobPriority.ORDINARY),
    "fetch.hub": LaneMapping("fast", JobPriority.FLAGGED),
    "fetch.laggards": LaneMapping("slow", JobPriority.ORDINARY),
    "fetch.warm": LaneMapping("slow", JobPriority.ORDINARY),
}


@dataclass(frozen=True, slots=True)
class QueuedWork:
    """Work to be claimed and enqueued. The first of its arguments is the URL.

    `expected_seconds` and `priority` are those of the job; without a priority the lane's holds. `moves_up`: if the
    work was claimed before, its job gets this priority.
    """

    work: Work
    expected_seconds: float | None = None
    priority: JobPriority | None = None
    moves_up: bool = False


@dataclass(frozen=True, slots=True)
class WorkEnqueued:
    """The claim is new, and the frontier has the job."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class WorkInHand:
    """The claim is an earlier one: the work waits, or is being done."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class OriginBusy:
    """The frontier takes no job for the domain: its backlog is full, or it rests."""

    wait_seconds: float
    is_resting: bool = False


@dataclass(frozen=True, slots=True)
class UrlRefused:
    """The URL has no host: no request can be sent."""


EnqueueOutcome = WorkEnqueued | WorkInHand | OriginBusy | UrlRefused | LaneFull | WorkFailed | WorkDone


def claim_and_enqueue(
    wanted: Mapping[Key, QueuedWork],
    *,
    refresh: bool,
    write_rows: Callable[[Collection[Key], Collection[Key]], Collection[Key] | None] = lambda begun, in_hand: None,
) -> dict[Key, EnqueueOutcome]:
    """Claims the works and enqueues their jobs, in this order; returns the outcomes. Raises StoreUnavailable.

    With `refresh` the work waits in its refresh lane, and is done again if it ended a moment ago.

    First the claims, then the rows, then the jobs: a process that dies between the steps leaves claims that the
    sweeper publishes. `write_rows` is called between claims and jobs, with the keys of new claims and of earlier ones.
    It may return keys of works to drop: they have no outcome. Claims of works that are not enqueued are abandoned.
    """
    calls = [claims.begin_call(each.work, refresh=refresh) for each in wanted.values()]
    replies = stores.execute_all_patiently("state", calls)
    states = dict(zip(wanted, map(claim_state.read_claim_state, replies), strict=True))
    begun = {key: state.token for key, state in states.items() if isinstance(state, ClaimBegun)}
    in_hand = [key for key, state in states.items() if isinstance(state, ClaimTaken | ClaimPromoted)]
    for key in write_rows(begun, in_hand) or ():
        del states[key]
    outcomes = _enqueue_claimed(wanted, states, refresh=refresh)
    refused = [key for key in begun if not isinstance(outcomes.get(key), WorkEnqueued)]
    stores.execute_all_patiently("state", [claims.abandon_call(wanted[key].work.key, begun[key]) for key in refused])
    return outcomes


def _enqueue_claimed(
    wanted: Mapping[Key, QueuedWork], states: Mapping[Key, ClaimState], *, refresh: bool
) -> dict[Key, EnqueueOutcome]:
    jobs = {
        key: _build_job_or_none(wanted[key], token, refresh=refresh)
        for key, state in states.items()
        if (token := _publishing_token(wanted[key], state)) is not None
    }
    replies = dict(zip(jobs, enqueue_jobs(list(jobs.values())), strict=True))
    return {
        key: _read_enqueued(replies[key], state) if key in replies else _read_unpublished(state)
        for key, state in states.items()
    }


def _publishing_token(each: QueuedWork, state: ClaimState) -> int | None:
    """Returns the token to publish the work with; None if it is not published.

    Work that this call promoted to another lane is published again, which moves its job up. If its domain rests for
    longer than its clients wait, the sweeper ends the claim.
    """
    if isinstance(state, ClaimBegun | ClaimPromoted) or (isinstance(state, ClaimTaken) and each.moves_up):
        return state.token
    return None


def _read_enqueued(reply: JobEnqueued | JobJoined | BacklogFull | None, state: ClaimState) -> EnqueueOutcome:
    if reply is None:
        return UrlRefused()
    if isinstance(reply, BacklogFull):
        return OriginBusy(reply.wait_seconds)
    if _is_resting(reply):
        return OriginBusy(reply.rest_seconds, is_resting=True)
    return (WorkEnqueued if isinstance(state, ClaimBegun) else WorkInHand)(reply.wait_seconds)


def _read_unpublished(state: ClaimState) -> WorkInHand | LaneFull | WorkFailed | WorkDone:
    if isinstance(state, ClaimTaken):
        return WorkInHand(state.wait_seconds)
    assert isinstance(state, LaneFull | WorkFailed | WorkDone), "only a look that does not claim finds the rest"
    return state


def read_lane_room(lane: str) -> int:
    """Returns the number of works that the lane takes. Jobs that are put back may fill it beyond its limit.

    Raises StoreUnavailable.
    """
    return max(0, conf().RETRY_LANES[lane]["limit"] - claims.count_queued([lane])[lane])


def publish(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Enqueues the URL that is the first of the arguments, on behalf of the work. Raises QueueUnavailable.

    Works share a job as their task says. The same work published again, swept or promoted, changes its token
    and its place in line and adds nothing. A URL of a domain that rests for longer than clients
    wait is not taken: nor is it kept, if all waits of those who wait for it end before.
    """
    try:
        job = _build_job(TaskCall(task, work_key, token, tuple(arguments)), lane)
        found = stores.run_steps(queue.enqueue_job(job))
        if isinstance(found, BacklogFull):
            raise QueueUnavailable("Too much waits for its origin.", retry_seconds=found.wait_seconds)
        if _is_resting(found):
            stores.run_steps(queue.withdraw_waiter(job.key, job.waiter.id))
            raise QueueUnavailable("Its origin is left alone for now.", retry_seconds=found.rest_seconds)
    except StoreUnavailable as error:
        raise QueueUnavailable(f"The lane {lane} does not take work: {error}") from error
    except ValueError as error:  # its text has the URL, which may hold secrets: this is logged
        raise QueueUnavailable(f"The lane {lane} does not take work: No host in its URL.") from error


def enqueue_jobs(jobs: Sequence[FetchJob | None]) -> list[JobEnqueued | JobJoined | BacklogFull | None]:
    """Enqueues the jobs in one trip; returns the frontier's replies, None for None.

    Jobs of a resting domain are withdrawn again. Raises StoreUnavailable.
    """
    replies = iter(stores.run_together([queue.enqueue_job(job) for job in jobs if job]))
    found = [next(replies) if job else None for job in jobs]
    resting = [job for job, one in zip(jobs, found, strict=True) if job and one and _is_resting(one)]
    stores.run_together([queue.withdraw_waiter(job.key, job.waiter.id) for job in resting])
    return found


def _is_resting(found: JobEnqueued | JobJoined | BacklogFull) -> bool:
    """True if the domain rests for longer than clients wait, in one wait or, for a job there is, in all of them.

    False if a fetcher has the job.
    """
    waits = conf().RETRY_MAX_WAITS if isinstance(found, JobJoined) and not found.is_new else 1
    if isinstance(found, BacklogFull) or found.rest_seconds <= waits * conf().DEFAULT_RETRY_TIMEOUT:
        return False
    return isinstance(found, JobEnqueued) or found.state in {"queued", "later"}


def _build_job_or_none(each: QueuedWork, token: int, *, refresh: bool) -> FetchJob | None:
    work = each.work
    call = TaskCall(work.task, work.key, token, work.arguments)
    try:
        return _build_job(call, work.refresh_lane if refresh else work.lane, each.expected_seconds, each.priority)
    except ValueError:
        return None


def _build_job(
    call: TaskCall, lane: str, expected_seconds: float | None = None, priority: JobPriority | None = None
) -> FetchJob:
    """Builds the job of the URL without its fragment, which says nothing of it. Raises ValueError without a host."""
    url, mapping = url_syntax.cut_fragment(str(call.arguments[0])), LANE_MAPPINGS[lane]
    call = replace(call, arguments=(url, *call.arguments[1:]))
    task = fetch_conf.find_task(call.task)
    return FetchJob(
        url,
        job_key(call.task, identify_job(task, call.arguments), url),
        Waiter(call.work_key, call.payload, call.token),
        priority=mapping.priority if priority is None else priority,
        lane=mapping.lane,
        expected_seconds=expected_seconds,
        expires_at=url_syntax.find_url_expiry(url),
        obeys_robots=task.obeys_robots,
        egress=_egress_name(url),
    )


def _egress_name(url: str) -> str:
    """Returns the name of the egress for the URL's domain, empty for the machine's own.

    Raises ValueError for a URL without host.
    """
    chosen = limit_scopes.choose_egress(queue.configured_egresses(), url_scopes(url).registrable)
    return "" if chosen is None else chosen.name
