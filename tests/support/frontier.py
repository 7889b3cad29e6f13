"""The frontier's calls against a real server, as its tests make them."""

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import (
    FETCH_LANES,
    BacklogFull,
    ClaimedJob,
    DeadJob,
    FetchJob,
    FetchLane,
    JobAfterReport,
    JobEnqueued,
    JobJoined,
    NothingDue,
    RateVerdict,
    RequestReport,
    Waiter,
)
from resources.fetch.frontier.queue import AfterReport, EndJob
from retry import stores

from .frontier_clock import Clock

HOST = "a.example.com"
OK = RequestReport(RateVerdict.OK, latency_seconds=0.1, status="200")
THROTTLED = RequestReport(RateVerdict.THROTTLED, latency_seconds=0.1, status="429")
FAILED = RequestReport(RateVerdict.FAILED, latency_seconds=0.1, status="500")
REFUSED = RequestReport(RateVerdict.REFUSED, latency_seconds=0.1, status="404")
UNREACHABLE = RequestReport(RateVerdict.UNREACHABLE, latency_seconds=0.1)
UNSENT = RequestReport(RateVerdict.UNSENT)


def job(name: str = "x", host: str = HOST, *, waiter: Waiter | None = None, **given: object) -> FetchJob:
    url = f"https://{host}/{name}"
    return FetchJob(url, url, waiter or Waiter(f"w:{name}"), **given)  # type: ignore[arg-type]


def enqueue(*jobs: FetchJob) -> JobEnqueued | JobJoined | BacklogFull:
    """All of them; how it went with the last."""
    return [stores.run_steps(queue.enqueue_job(one)) for one in jobs][-1]


def claim(*lanes: FetchLane, worker: str = "", machine: str = "m") -> ClaimedJob | DeadJob | NothingDue:
    """Claims one job, or learns that nothing is due. Each machine has one worker, that of `m` is "w"."""
    worker = worker or ("w" if machine == "m" else f"{machine}:w")
    return stores.run_steps(queue.claim_jobs(worker, machine, 1, dict.fromkeys(lanes or FETCH_LANES, 1)))[0]


def claimed(*lanes: FetchLane, machine: str = "m") -> ClaimedJob:
    found = claim(*lanes, machine=machine)
    assert isinstance(found, ClaimedJob), found
    return found


def idle(*lanes: FetchLane) -> float:
    """The answer that nothing is due, and for how long."""
    found = claim(*lanes)
    assert isinstance(found, NothingDue), found
    return found.wait_seconds


def dead_job() -> DeadJob:
    found = claim()
    assert isinstance(found, DeadJob), found
    return found


def report(
    held: ClaimedJob, outcome: RequestReport = OK, then: AfterReport | None = None, machine: str = "m"
) -> JobAfterReport:
    """The result of the report; the job ends unless `then` says otherwise."""
    step = then or EndJob(held.version)
    return stores.run_steps(queue.report_and_finish_work(held, machine, outcome, step))[1]


def record(scope: str = HOST) -> dict[str, str]:
    return dict(stores.run_steps(queue.read_domain_record(scope))[1])


def learn(scope: str = HOST, **fields: float) -> None:
    """Puts learnt values into the domain's record."""
    for name, value in fields.items():
        stores.fast_client("state").hset(f"fetch:{{0}}:domain:{scope}", name, str(value))


def next_claimed(clock: Clock) -> ClaimedJob:
    """The next job, as soon as it is due."""
    while isinstance(found := claim(), NothingDue):
        clock.pass_by(found.wait_seconds)
    assert isinstance(found, ClaimedJob), found
    return found


def backlog(host: str = HOST, size: int = 50) -> None:
    enqueue(*(job(f"backlog-{number}", host) for number in range(size)))
