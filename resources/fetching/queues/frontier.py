"""The frontier: queues by domain in `state`. Each function is one call to one script on Redis' clock.

They are steps: connections.run() or run_all() carries them out. `politeness` has the numbers they go by.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from retry.claims import Ending, finishing_terms
from retry.connections import Steps
from retry.scripts import Call

from ..addressing.scopes import scopes
from . import replies
from .calling import call
from .jobs import (
    Again,
    Around,
    Claimed,
    Doomed,
    Ended,
    Enqueued,
    Full,
    Held,
    Idle,
    InForce,
    Job,
    Joined,
    Lane,
    Limits,
    More,
    NoBudget,
    Priority,
    Report,
    Stale,
)
from .proposing import Refusal

WAKE_CHANNEL = "fetch:wake"
"""A publish here says in how many ms something is due that those who sleep did not know of."""

LANES: tuple[Lane, ...] = ("fast", "slow")

Scope = Literal["path", "host", "registrable"]


@dataclass(frozen=True, slots=True)
class Hold:
    """The domain's place is given back; the job stays with its worker, which finishes it later."""


@dataclass(frozen=True, slots=True)
class End:
    """The job is done, if nobody has joined since this version."""

    version: int


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The job is queued again after that time: an attempt, within the domain's retry budget, unless it is nobody's."""

    wait_seconds: float
    counts: bool = True


@dataclass(frozen=True, slots=True)
class PutBack:
    """The job is queued again at its place: its turn was used for something else, or not at all. No attempt."""


Next = Hold | End | TryAgain | PutBack


def enqueue(job: Job) -> Steps[Enqueued | Joined | Full]:
    """Puts the job into its domain's queue, or joins the one of its key. Raises ValueError for a URL without host."""
    names = scopes(job.url)
    expires_ms = job.expires_at * 1000 if job.expires_at else 0
    expected_ms = "" if job.expected_seconds is None else job.expected_seconds * 1000
    times = (expected_ms, job.not_before_seconds * 1000, expires_ms, int(job.obeys_robots))
    wish = (job.wish.id, job.wish.order, job.wish.payload)
    where = (names.host, names.registrable, names.path, job.scope, job.egress, job.lane, int(job.priority))
    return replies.enqueued((yield call("enqueue", job.key, *where, *times, job.url, job.detail, *wish)))


def claim(worker: str, machine: str, lanes: Iterable[Lane] = LANES) -> Steps[Claimed | Doomed | Idle]:
    """The next job for a fetcher that has room in these lanes. See claim_some()."""
    return (yield from claim_some(worker, machine, 1, dict.fromkeys(lanes, 1)))[0]


def claim_some(
    worker: str, machine: str, most: int, rooms: Mapping[Lane, int], starting_terms: str = ""
) -> Steps[list[Claimed | Doomed | Idle]]:
    """The next jobs for a fetcher, so many at most, and in each lane as many as it has room for.

    Idle ends them when nothing more is due, unless a lane has become full: of that it says nothing.
    `machine` names what shares its ways out to the network: when the network is away through one of them (its own,
    or an egress), one request at a time tries that way. With `starting_terms`, of retry.claims, the works that want the
    jobs start in the same step: no request waits for that.
    """
    lanes = [part for lane_and_room in rooms.items() for part in lane_and_room]
    return replies.claimed((yield call("claim", worker, machine, most, starting_terms, *lanes)))


def report(
    job: Claimed, machine: str, outcome: Report, then: Next
) -> Steps[Held | Ended | More | Again | NoBudget | Stale]:
    """What came of the request. The domain learns from it, and its place in flight is free.

    A throttled job is queued again whatever `then` says, and so is one whose network is away. Works that had started
    with a job wait again when it does.
    """
    return (yield from report_and_finish(job, machine, outcome, then))[1]


def report_and_finish(
    job: Claimed, machine: str, outcome: Report, then: Next, ending: Ending | None = None
) -> Steps[tuple[bool, Held | Ended | More | Again | NoBudget | Stale]]:
    """The same, and the end of a work that wanted the job; whether it was that work's end."""
    what, version, again_seconds = "hold", -1, 0.0
    match then:
        case End(version):
            what = "end"
        case TryAgain(again_seconds, counts):
            what = "again" if counts else "later"
        case PutBack():
            what = "back"
    latency_ms, retry_after_ms = outcome.latency_seconds * 1000, max(0.0, outcome.retry_after_seconds) * 1000
    came = (outcome.verdict.value, outcome.status, latency_ms, retry_after_ms, outcome.bytes)
    of_work = (finishing_terms(), *ending.arguments) if ending else ()
    return replies.reported(
        (yield call("report", machine, job.key, job.token, *came, what, version, again_seconds * 1000, *of_work))
    )


def finish(job: Claimed, version: int | None = None) -> Steps[Ended | More | Stale]:
    """Ends a job that is held or doomed, unless others joined since that version."""
    version = job.version if version is None else version
    return replies.finished((yield call("finish", job.key, job.token, version)))


def renew(jobs: Iterable[Claimed]) -> Steps[set[str]]:
    """Sets the leases of jobs anew; the keys of those that are lost."""
    pairs = [part for job in jobs for part in (job.key, job.token)]
    return set(replies.texts((yield call("renew", *pairs))))


def put_back(worker: str, held: Iterable[str]) -> Steps[int]:
    """Queues again what this fetcher was handed and does not hold, since it has not come there. No lapse of theirs.

    `held` are the keys of the jobs that it does hold. How many it was. Works that started with such jobs wait again.
    """
    return int(str((yield call("put_back", worker, *held))))


def sign_in(worker: str) -> Steps[None]:
    """Says that this fetcher is there, for as long as a lease lasts."""
    yield call("sign_in", worker)


def fetchers() -> Steps[int]:
    """How many fetchers are there, on all machines."""
    return int(str((yield call("fetchers"))))


def around(egress: str) -> Steps[Around]:
    """What holds for all domains that are asked by that way out, for explaining.py."""
    fetchers, machines, *without_network = replies.texts((yield call("around", egress)))
    return Around(int(fetchers), int(machines), tuple(without_network))


def move(key: str, lane: Lane, priority: Priority | None = None) -> Steps[bool]:
    """Moves a job to another lane for good, as one that turned out slow. False when there is none to move."""
    return (yield call("move", key, lane, "" if priority is None else int(priority))) == 1


def remove(key: str, wish_id: str = "") -> Steps[str]:
    """Withdraws a wish, or the whole job: `removed`, `kept` (others want it), `in_flight` or `unknown`."""
    reply = yield call("remove", key, wish_id)
    assert isinstance(reply, bytes)
    return reply.decode()


def set_limits(scope: str, limits: Limits) -> Steps[None]:
    """What an admin says of a domain, in the place of what was learnt. Every fetcher's next claim obeys.

    It holds for each egress by which the domain is asked; scopes.via(...) names one of them alone. What was set
    last holds. So it is with block() and unblock().
    """
    named = (
        ("delay", None if limits.delay_seconds is None else limits.delay_seconds * 1000),
        ("cap", limits.in_flight),
        ("bytes", limits.bytes_per_second),
    )
    settings = [part for name, value in named for part in (name, "" if value is None else value)]
    yield call("limit", scope, *settings, "paused", int(limits.paused))


def block(scope: str, seconds: float) -> Steps[None]:
    """Lets nothing be sent to the domain for so long."""
    yield call("limit", scope, "blocked", seconds * 1000)


def unblock(scope: str) -> Steps[None]:
    """Ends a block, whatever its cause, and closes the circuit. What was learnt of the rate stays."""
    yield call("limit", scope, "unblock", 1)


def set_crawl_delay(scope: str, seconds: float, known_for_seconds: float) -> Steps[None]:
    """What the domain's robots.txt asks for: the gap for jobs that obey it. Until then no claim needs it again."""
    yield call("crawl", scope, seconds * 1000, known_for_seconds * 1000)


def set_scope(name: str, kind: Scope | str) -> Steps[None]:
    """What limits of a host, or of a registrable domain, count for: see Scope, or scopes.address(...).

    Without a kind the rule of the name is gone: that of its registrable domain holds, else each host counts
    alone. Jobs that wait stay where they are.
    """
    yield call("scope", name, kind)


def look(scope: str) -> Steps[tuple[float, Mapping[str, str]]]:
    """Redis' time in ms and the domain's record, as explaining.py reads them."""
    reply = yield Call("state", "fetch.look", (), (scope,))
    assert isinstance(reply, list)
    return float(reply[0]), replies.fields(reply[1])


def look_at_all(scopes: Sequence[str]) -> Steps[tuple[float, list[Mapping[str, str]]]]:
    """The same for many domains in one call, in their order."""
    reply = yield Call("state", "fetch.look_at_all", (), scopes)
    assert isinstance(reply, list)
    return float(reply[0]), [replies.fields(record) for record in reply[1:]]


def limits_in_force(scopes: Sequence[str]) -> Steps[list[InForce]]:
    """What is set for these domains, in their order: what set_limits() and set_scope() have left here."""
    return replies.in_force((yield Call("state", "fetch.limits", (), scopes)))


def evidence(site: str) -> Steps[list[Refusal]]:
    """What was refused by hosts of a registrable domain within a day, for proposing.py; the latest hundred."""
    reply = yield Call("state", "fetch.evidence", (), (site,))
    return [Refusal(at / 1000, host, path, scope) for at, host, path, scope in map(json.loads, replies.texts(reply))]
