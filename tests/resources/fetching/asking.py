"""The frontier's calls against a real server, as its tests make them."""

from resources.fetching.queues import frontier
from resources.fetching.queues.frontier import End, Next
from resources.fetching.queues.jobs import (
    Again,
    Claimed,
    Doomed,
    Ended,
    Enqueued,
    Full,
    Held,
    Idle,
    Job,
    Joined,
    Lane,
    More,
    NoBudget,
    Report,
    Stale,
    Verdict,
    Wish,
)
from retry import connections
from tests.resources.fetching.clock import Clock

HOST = "a.example.com"
OK = Report(Verdict.OK, latency_seconds=0.1, status="200")
THROTTLED = Report(Verdict.THROTTLED, latency_seconds=0.1, status="429")
FAILED = Report(Verdict.FAILED, latency_seconds=0.1, status="500")
REFUSED = Report(Verdict.REFUSED, latency_seconds=0.1, status="404")
UNREACHABLE = Report(Verdict.UNREACHABLE, latency_seconds=0.1)
UNSENT = Report(Verdict.UNSENT)


def job(name: str = "x", host: str = HOST, *, wish: Wish | None = None, **given: object) -> Job:
    url = f"https://{host}/{name}"
    return Job(url, url, wish or Wish(f"w:{name}"), **given)  # type: ignore[arg-type]


def enqueue(*jobs: Job) -> Enqueued | Joined | Full:
    """All of them; how it went with the last."""
    return [connections.run(frontier.enqueue(one)) for one in jobs][-1]


def claim(*lanes: Lane, worker: str = "w", machine: str = "m") -> Claimed | Doomed | Idle:
    return connections.run(frontier.claim(worker, machine, lanes or frontier.LANES))


def claimed(*lanes: Lane, machine: str = "m") -> Claimed:
    found = claim(*lanes, machine=machine)
    assert isinstance(found, Claimed), found
    return found


def idle(*lanes: Lane) -> float:
    """That nothing is due, and for how long."""
    found = claim(*lanes)
    assert isinstance(found, Idle), found
    return found.wait_seconds


def doomed() -> Doomed:
    found = claim()
    assert isinstance(found, Doomed), found
    return found


def report(
    held: Claimed, outcome: Report = OK, then: Next | None = None, machine: str = "m"
) -> Held | Ended | More | Again | NoBudget | Stale:
    """What came of it; the job ends unless `then` says otherwise."""
    return connections.run(frontier.report(held, machine, outcome, then or End(held.version)))


def record(scope: str = HOST) -> dict[str, str]:
    return dict(connections.run(frontier.look(scope))[1])


def next_claimed(clock: Clock) -> Claimed:
    """The next job, as soon as it is due."""
    while isinstance(found := claim(), Idle):
        clock.pass_by(found.wait_seconds)
    assert isinstance(found, Claimed), found
    return found


def backlog(host: str = HOST, size: int = 50) -> None:
    enqueue(*(job(f"backlog-{number}", host) for number in range(size)))
