"""The frontier's functions, each of them one call to one script on Redis' clock.

They are steps, which `stores.run_steps` carries out. `politeness` has their numbers.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from django.conf import settings

from retry import claims
from retry.claims import ClaimEnd, finish_terms
from retry.conf import StateShare, cached_settings, partition_root
from retry.records import frozen_record
from retry.scripts import ScriptCall
from retry.stores import Steps

from ..http import limit_scopes
from ..http.limit_scopes import Egress, url_scopes
from . import jobs as frontier_jobs
from .explain import RefusedRequest
from .jobs import (
    BacklogFull,
    ClaimedJob,
    DeadJob,
    DomainLimits,
    FetchJob,
    FetchLane,
    JobAfterReport,
    JobEnded,
    JobEnqueued,
    JobJoined,
    JobLost,
    JobPriority,
    LimitsInForce,
    MoreWaiters,
    NothingDue,
    RequestReport,
    Surroundings,
    TurnGranted,
    TurnTooFar,
)
from .politeness import Politeness, script_rules

WAKE_CHANNEL = "fetch:wake"
"""A publish here says in how many ms something is due that sleeping fetchers did not know of."""


@dataclass(frozen=True, slots=True)
class HoldJob:
    """Gives the domain's place in flight back; the job stays with its fetcher, which finishes it later."""


@frozen_record
class EndJob:
    """Ends the job, if no waiter has joined since this version."""

    version: int


@dataclass(frozen=True, slots=True)
class RetryJob:
    """Queues the job again after that time. With `counts`, it is an attempt, within the domain's retry budget."""

    wait_seconds: float
    counts: bool = True


@dataclass(frozen=True, slots=True)
class PutJobBack:
    """Queues the job again at its place: its turn was used for another request, or not at all. No attempt."""


AfterReport = HoldJob | EndJob | RetryJob | PutJobBack


KNOWN_DOMAINS = StateShare(1 / 80, record_bytes=650)
EVIDENT_DOMAINS = StateShare(1 / 100, record_bytes=20_000)
SLOW_URLS = StateShare(1 / 700, record_bytes=150)
"""The records of the frontier that hosts and URLs without number drive: see `Politeness`. A registrable domain has
evidence of a hundred refusals at the most.
"""


@cached_settings
def configured_politeness() -> Politeness:
    """Returns the numbers by the current settings. Units are those of docs/settings.md."""
    return Politeness(
        delay_seconds=settings.FETCH_DELAY_SECONDS,
        least_delay_seconds=1 / settings.FETCH_MAX_PER_SECOND if settings.FETCH_MAX_PER_SECOND else 0,
        in_flight=settings.FETCH_IN_FLIGHT,
        most_in_flight=settings.FETCH_MAX_IN_FLIGHT,
        bytes_per_second=settings.FETCH_BYTES_PER_SECOND,
        slots=settings.FETCH_SLOTS,
        slow_after_seconds=settings.FETCH_SLOW_AFTER_SECONDS,
        lease_seconds=settings.FETCH_LEASE_SECONDS,
        backlog=settings.FETCH_BACKLOG,
        domain_backlog=settings.FETCH_DOMAIN_BACKLOG,
        stall_seconds=settings.FETCH_STALL_SECONDS,
        most_domains=KNOWN_DOMAINS.most_records,
        most_evidence=EVIDENT_DOMAINS.most_records,
        most_slow=SLOW_URLS.most_records,
    )


@cached_settings
def configured_egresses() -> tuple[Egress, ...]:
    """Returns the egresses of FETCH_EGRESS. Raises MalformedEgressError where `checks` finds an error."""
    return limit_scopes.parse_egresses(settings.FETCH_EGRESS)


def call_script(script: str, *arguments: str | int | float) -> ScriptCall:
    """Returns the call of one script on Redis' clock. Runs nothing."""
    return _call_plain(script, _rules_json(), *arguments)


def _call_plain(script: str, *arguments: str | int | float) -> ScriptCall:
    """The call of a script without the rules. The frontier is in the first partition of `state`."""
    return ScriptCall("state", f"fetch.{script}", [partition_root("retry", 0)], arguments)


def _call_for_item(script: str, shared: Sequence[str], *item: str | int | float) -> ScriptCall:
    """The call of a script for several items, with one of them. Its reply is for parse_only."""
    return ScriptCall("state", f"fetch.{script}", [partition_root("retry", 0)], (_rules_json(), *shared), item)


def _rules_json() -> str:
    """Returns the numbers for every script, as JSON. The time is Redis' own; a test may put a `now` (ms) in here."""
    return f'{{"luck":{random.random():.6f},{_numbers_json(configured_politeness())}'


@lru_cache(maxsize=4)
def _numbers_json(given: Politeness) -> str:
    return json.dumps({**script_rules(given), "unknown_ms": claims.UNKNOWN_DURATION_MS})[1:]


def enqueue_job(job: FetchJob) -> Steps[JobEnqueued | JobJoined | BacklogFull]:
    """Puts the job into its domain's queue, or joins the job of its key. Raises ValueError for a URL without host."""
    names = url_scopes(job.url)
    expires_ms = job.expires_at * 1000 if job.expires_at else 0
    expected_ms = "" if job.expected_seconds is None else job.expected_seconds * 1000
    times = (expected_ms, job.not_before_seconds * 1000, expires_ms, int(job.obeys_robots))
    waiter = (job.waiter.id, job.waiter.token, job.waiter.payload)
    where = (names.host, names.registrable, names.path, job.scope, job.egress, job.lane, int(job.priority))
    reply = yield _call_for_item("enqueue", (), job.key, *where, *times, job.url, job.detail, *waiter)
    return frontier_jobs.parse_enqueued(frontier_jobs.parse_only(reply))


def claim_jobs(
    fetcher: str,
    machine: str,
    most: int,
    rooms: Mapping[FetchLane, int],
    starting_terms: str = "",
    *,
    egresses: Iterable[str] | None = None,
) -> Steps[list[ClaimedJob | DeadJob | NothingDue]]:
    """Claims the next jobs of a fetcher's domains, `most` in all, and in each lane as many as it has room for.

    A claim signs the fetcher in, with these `egresses`, if need be: its domains are those of the parts that it owns.
    NothingDue ends them if nothing more is due; a lane that has become full is not searched, and has no NothingDue.
    `machine` names the machine that shares its egresses: while the network is away by one of them (its own, or an
    egress), other machines own the domains by that one, and one request at a time, to any of these, tries it. With
    `starting_terms`, of retry.claims, the works of the jobs' waiters start in the same step, so that no request waits
    for that.
    """
    lanes = [part for lane_and_room in rooms.items() for part in lane_and_room]
    signs = (fetcher, machine, _list_egresses(egresses))
    return frontier_jobs.parse_claimed((yield call_script("claim", *signs, most, starting_terms, *lanes)))


def start_work(job: ClaimedJob, work_key: str) -> Steps[tuple[int, int]]:
    """Starts a work that waits for a held job. Returns the outcome, as claims.STARTED, and the work's token."""
    call = _call_plain("start", job.key, job.token, work_key, claims.start_terms())
    outcome, token = cast("tuple[int, bytes]", (yield call))
    return outcome, int(token)


def report_and_finish_work(
    job: ClaimedJob, machine: str, outcome: RequestReport, then: AfterReport, ending: ClaimEnd | None = None
) -> Steps[tuple[bool, JobAfterReport]]:
    """Reports the outcome of the request. The domain learns from it, and its place in flight is free.

    A throttled job is queued again with any `then`, and so is one whose network is away. Works that had started
    with a job wait again with it. Returns True with the reply if the claim of `ending`, a work of the job, has ended.
    """
    step, version, again_seconds = "hold", -1, 0.0
    match then:
        case EndJob(version):
            step = "end"
        case RetryJob(again_seconds, counts):
            step = "again" if counts else "later"
        case PutJobBack():
            step = "back"
    times_ms = (outcome.latency_seconds * 1000, max(0.0, outcome.retry_after_seconds) * 1000)
    came = (outcome.verdict.value, outcome.status, *times_ms, outcome.bytes)
    of_work = () if ending is None else ending.arguments
    of_job = (job.key, job.token, *came, step, version, again_seconds * 1000, len(of_work), *of_work)
    reply = yield _call_for_item("report", (machine, finish_terms()), *of_job)
    return frontier_jobs.parse_reported(frontier_jobs.parse_only(reply))


def finish_job(job: ClaimedJob, version: int | None = None) -> Steps[JobEnded | MoreWaiters | JobLost]:
    """Ends a held or dead job, unless waiters joined since that version."""
    known_version = job.version if version is None else version
    return frontier_jobs.parse_finished((yield call_script("finish", job.key, job.token, known_version)))


def renew_job_leases(jobs: Iterable[ClaimedJob]) -> Steps[set[str]]:
    """Renews the leases of jobs; returns the keys of lost ones."""
    pairs = [part for job in jobs for part in (job.key, job.token)]
    return set(frontier_jobs.parse_texts((yield call_script("renew", *pairs))))


def requeue_unheld_jobs(fetcher: str, held: Iterable[str]) -> Steps[int]:
    """Queues jobs again that were handed to this fetcher but did not arrive there. Not counted as their lapse.

    `held` are the keys of the jobs that it does hold. Returns the number of jobs. Works that started with them
    wait again.
    """
    return int(str((yield call_script("put_back", fetcher, *held))))


def move_job(key: str, lane: FetchLane, priority: JobPriority | None = None) -> Steps[bool]:
    """Moves a job to another lane for good, for example a slow one. Returns False if there is no such job to move."""
    return (yield call_script("move", key, lane, "" if priority is None else int(priority))) == 1


def withdraw_waiter(key: str, waiter_id: str = "") -> Steps[str]:
    """Withdraws a waiter, or the whole job: `removed`, `kept` (others wait), `in_flight` or `unknown`."""
    reply = yield call_script("remove", key, waiter_id)
    assert isinstance(reply, bytes)
    return reply.decode()


def count_jobs_before(work_key: str) -> Steps[int | None]:
    """Returns the number of jobs that its domain gets before that of the work, for people who wait.

    None if it is being requested, waits for a later try, or has no job. The lane (RETRY_LANES) names this function.
    """
    before = yield _call_plain("line", work_key)
    assert isinstance(before, int)
    return None if before < 0 else before


def take_turn(url: str, egress: str, most_wait_seconds: float) -> Steps[TurnGranted | TurnTooFar]:
    """Takes a turn at the URL's domain, by that egress. Raises ValueError for a URL without host.

    Any fetcher may: a redirect is followed by the fetcher that met it, whoever owns the next domain. The domain's
    limits are those of all fetchers.
    """
    reply = cast(list[bytes], (yield call_script("turn", *_scope_arguments(url, egress), most_wait_seconds * 1000)))
    how, wait_seconds = reply[0], float(reply[1]) / 1000
    return TurnGranted(wait_seconds, reply[2] == b"1") if how == b"granted" else TurnTooFar(wait_seconds)


def read_domain_rest(scope: str) -> Steps[float]:
    """Returns the seconds for which the domain of a claimed job is blocked after all. 0: its request may be sent."""
    reply = yield _call_for_item("rest", (), scope)
    return float(cast(bytes, frontier_jobs.parse_only(reply))) / 1000


def report_served_turn(
    url: str, egress: str, since_turn_seconds: float, latency_seconds: float, *, is_paced: bool
) -> Steps[None]:
    """Reports to the URL's domain that it answered the request of such a turn, which was taken so long ago."""
    times = (since_turn_seconds * 1000, latency_seconds * 1000)
    yield call_script("served", *_scope_arguments(url, egress), *times, int(is_paced))


def report_refused_turn(url: str, egress: str, latency_seconds: float, retry_after_seconds: float) -> Steps[None]:
    """Reports to the URL's domain that it refused the request of such a turn."""
    yield call_script("refused", *_scope_arguments(url, egress), latency_seconds * 1000, retry_after_seconds * 1000)


def _scope_arguments(url: str, egress: str) -> tuple[str, str, str, str]:
    names = url_scopes(url)
    return names.host, names.registrable, names.path, egress


def sign_in_fetcher(fetcher: str, machine: str = "", egresses: Iterable[str] | None = None) -> Steps[None]:
    """Notes that this fetcher is alive, for as long as a lease lasts, and which egresses its machine has.

    Its machine is the first part of its name, before a colon, if none is named; its egresses are all that are
    configured if none are named.
    """
    yield call_script("sign_in", fetcher, machine or fetcher.rpartition(":")[0] or fetcher, _list_egresses(egresses))


def sign_out_fetcher(fetcher: str) -> Steps[None]:
    """Notes that this fetcher claims no more: others own its domains at once. It may go on to report and to finish."""
    yield call_script("sign_out", fetcher)


def _list_egresses(names: Iterable[str] | None) -> str:
    return " ".join(names if names is not None else (egress.name for egress in configured_egresses()))


def count_fetchers() -> Steps[int]:
    return int(str((yield call_script("fetchers"))))


def read_owned_parts() -> Steps[dict[str, int]]:
    """Returns the number of parts of the domains that each living fetcher owns, over all egresses. Each has 64."""
    counts = frontier_jobs.parse_fields((yield call_script("ownership")))
    return {fetcher: int(number) for fetcher, number in counts.items()}


def set_limits(scope: str, limits: DomainLimits) -> Steps[None]:
    """Sets an admin's limits of a domain, in place of the learnt ones. Every fetcher's next claim obeys.

    They hold for each egress of the domain; scope_via(...) names one of them alone. The last setting
    holds. The same is true of block_domain() and unblock_domain().
    """
    named = (
        ("delay", None if limits.delay_seconds is None else limits.delay_seconds * 1000),
        ("cap", limits.in_flight),
        ("bytes", limits.bytes_per_second),
    )
    settings = [part for name, value in named for part in (name, "" if value is None else value)]
    yield call_script("limit", scope, *settings, "paused", int(limits.paused))


def block_domain(scope: str, seconds: float) -> Steps[None]:
    yield call_script("limit", scope, "blocked", seconds * 1000)


def unblock_domain(scope: str) -> Steps[None]:
    """Ends a block of any cause, and closes the circuit. The learnt rate stays."""
    yield call_script("limit", scope, "unblock", 1)


def set_crawl_delay(scope: str, seconds: float, known_for_seconds: float) -> Steps[None]:
    """Sets the gap of the domain's robots.txt, for jobs that obey it.

    No claim asks for robots.txt again until `known_for_seconds` are over.
    """
    yield call_script("crawl", scope, seconds * 1000, known_for_seconds * 1000)


def set_scope_rule(name: str, kind: str) -> Steps[None]:
    """Sets the scope of the limits of a host or a registrable domain: path, host, registrable or address_scope(...).

    Without a kind the rule of the name is gone: that of its registrable domain holds, else each host counts
    alone. Waiting jobs stay in their queues.
    """
    yield call_script("scope", name, kind)


def read_surroundings(egress: str, scope: str = "") -> Steps[Surroundings]:
    """Returns the surroundings of all domains of that egress, and the owner of one, for explain_domain()."""
    fetchers, machines, owner, *without = frontier_jobs.parse_texts((yield call_script("around", egress, scope)))
    return Surroundings(int(fetchers), int(machines), tuple(without), owner)


def read_domain_record(scope: str) -> Steps[tuple[float, Mapping[str, str]]]:
    """Returns Redis' time in ms and the domain's record, for parse_domain()."""
    now_ms, [fields] = yield from read_domain_records([scope])
    return now_ms, fields


def read_domain_records(scopes: Sequence[str]) -> Steps[tuple[float, list[Mapping[str, str]]]]:
    """Returns the same for many domains in one call, in their order."""
    reply = yield _call_plain("look", *scopes)
    assert isinstance(reply, list)
    return float(reply[0]), [frontier_jobs.parse_fields(record) for record in reply[1:]]


def read_limits_in_force(scopes: Sequence[str]) -> Steps[list[LimitsInForce]]:
    """Returns the limits and scope rules that Redis holds for these domains, in their order."""
    return frontier_jobs.parse_limits_in_force((yield _call_plain("limits", *scopes)))


def read_refusals(site: str) -> Steps[list[RefusedRequest]]:
    """Returns the last hundred refusals by hosts of a registrable domain within a day, for propose_scope()."""
    reply = yield _call_plain("evidence", site)
    return [
        RefusedRequest(at / 1000, host, path, scope)
        for at, host, path, scope in map(json.loads, frontier_jobs.parse_texts(reply))
    ]
