"""What waits in the frontier, and what becomes of it. PURE: values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from hashlib import sha256
from typing import Literal

Lane = Literal["fast", "slow"]


class Priority(IntEnum):
    """Which domains come first: those somebody waits for, those that said they changed, the rest."""

    INTERACTIVE = 1
    FLAGGED = 2
    ORDINARY = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """Why a job is wanted. Several wishes share one job, and all are told of its end.

    `id` names the piece of work; a wish of the same id with a higher `order` (a fencing token) takes
    the place of an earlier one. `payload` is text (JSON) that the frontier does not read.
    """

    id: str
    payload: str = ""
    order: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """One URL to be fetched. Jobs of one key are one request, whoever wants it.

    `expected_seconds` is how long the request is expected to take; None: as long as others of its domain did.
    `obeys_robots`: it waits for as long as the
    domain's robots.txt asks for (unless an admin has set a gap), which is asked for before it when it is not known.
    `expires_at` (Unix seconds) is when the URL itself expires. `detail` is text that goes with the URL (method,
    validators). `scope` is by rule when it is empty. `egress` names the way out that its requests take, each with
    limits of its own; empty: the machine's own.
    """

    url: str
    key: str
    wish: Wish
    priority: Priority = Priority.ORDINARY
    lane: Lane = "fast"
    expected_seconds: float | None = None
    not_before_seconds: float = 0.0
    expires_at: float | None = None
    obeys_robots: bool = False
    detail: str = ""
    scope: str = ""
    egress: str = ""


def url_key(url: str, method: str = "GET") -> str:
    """The key of jobs that may share one request. Canonicalises nothing."""
    return f"{method}:{sha256(url.encode()).hexdigest()}"


class Verdict(Enum):
    """What a request says of its domain. What it says of the job is the caller's to decide."""

    OK = "ok"
    """An answer that speaks for the rate: 2xx, 304."""
    THROTTLED = "throttled"
    """429, or 503 as a refusal: the domain's, not the job's failure. The job is queued again."""
    REFUSED = "refused"
    """An answer about this request alone (404, 410, too big): makes nothing faster or slower."""
    FAILED = "failed"
    """The host answered, and is not well: 5xx, a broken body."""
    UNREACHABLE = "unreachable"
    """No answer: no name, no connection, no time. Several hosts at once, and our network is held to be away."""
    UNSENT = "unsent"
    """No request was sent. The place in line is given back."""
    AWAY = "away"
    """This machine has no network, or its egress does not work: counts against nobody. That way rests, and is tried
    every two seconds; the job is queued again."""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one request."""

    verdict: Verdict
    latency_seconds: float = 0.0
    status: str = ""
    retry_after_seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job waits in the queue of this scope. Nothing at all is sent to its domain for `closed_seconds`."""

    scope: str
    wait_seconds: float
    closed_seconds: float = 0


@dataclass(frozen=True, slots=True)
class Joined:
    """There is a job of that key: `queued`, `later`, `running`, `holding` (fetched), `doomed` or `ending`."""

    state: str
    wait_seconds: float
    closed_seconds: float = 0


@dataclass(frozen=True, slots=True)
class Full:
    """The backlog of the domain, or of all, has no room."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Claimed:
    """A job to be done now: fetch, report, finish. `version` counts wishes that joined since it was first claimed.

    `needs_robots`: this turn is for the domain's robots.txt, in place of the job: frontier.set_crawl_delay(), then
    report what came of that request, and PutBack. Nothing else is sent to the domain meanwhile.

    `starts`: by their keys, the works that were asked to start with it, and what became of that (retry.claims.STARTED).
    """

    key: str
    token: int
    version: int
    url: str
    detail: str
    scope: str
    host: str
    egress: str
    lane: Lane
    priority: Priority
    attempts: int
    lapses: int
    needs_robots: bool
    wishes: tuple[Wish, ...] = field(repr=False)
    starts: Mapping[str, int] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Doomed:
    """A job that has failed without a request: tell those who want it, then finish.

    `why` is `expired` (its URL has), `stalled` (its domain had no success for too long) or `lapsed`
    (it lost its worker too often).
    """

    job: Claimed
    why: str


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is due for so long, unless a publish says otherwise."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Held:
    """The domain's place is free; the job is held, under its lease, until it is finished."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is gone."""


@dataclass(frozen=True, slots=True)
class More:
    """Others have joined meanwhile: do what they want too, then finish with this version."""

    version: int
    wishes: tuple[Wish, ...]


@dataclass(frozen=True, slots=True)
class Again:
    """The job is queued again."""

    wait_seconds: float


@dataclass(frozen=True, slots=True)
class NoBudget:
    """The domain's retries are used up: the job is held, and should fail."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The job is somebody else's by now, or gone: what was fetched may be kept, nothing else."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an admin sets for a domain. None: as learnt, or by settings."""

    delay_seconds: float | None = None
    in_flight: int | None = None
    bytes_per_second: int | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Around:
    """How many fetchers there are, on how many machines, and which of these have no network by some way out."""

    fetchers: int
    machines: int
    without_network: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InForce:
    """What is set for a domain in the frontier: its limits, and what they count for (empty: by rule)."""

    limits: Limits
    counted_by: str
