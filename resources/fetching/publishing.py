"""Lanes of the deferral protocol whose work is fetched: their work goes into the frontier."""

from collections.abc import Sequence
from dataclasses import dataclass

from retry import connections
from retry.conf import conf
from retry.errors import QueueUnavailable, StoreUnavailable
from retry.work import Argument

from . import conf as fetch_conf
from .addressing import egress, signed_urls
from .addressing.scopes import scopes
from .errands import Errand
from .queues import frontier, tuning
from .queues.jobs import Enqueued, Full, Job, Joined, Lane, Priority, Wish, url_key


@dataclass(frozen=True, slots=True)
class Place:
    """Where work of a protocol lane stands in the frontier."""

    lane: Lane
    priority: Priority


PLACES = {
    "fetch.fast": Place("fast", Priority.INTERACTIVE),
    "fetch.slow": Place("slow", Priority.INTERACTIVE),
    "fetch.refresh": Place("fast", Priority.ORDINARY),
    "fetch.ingest": Place("fast", Priority.ORDINARY),
    "fetch.large": Place("slow", Priority.ORDINARY),
    "fetch.calls": Place("fast", Priority.ORDINARY),
    "fetch.feeds": Place("fast", Priority.ORDINARY),
    "fetch.warm": Place("slow", Priority.ORDINARY),
}


@dataclass(frozen=True, slots=True)
class Order:
    """Work to be published in a lane, as `publish` takes it.

    `expected_seconds` and `priority` as of a Job; without a priority it is that of the lane.
    """

    task: str
    work_key: str
    token: int
    arguments: Sequence[Argument]
    lane: str
    expected_seconds: float | None = None
    priority: Priority | None = None


def publish(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Asks for the URL that is the first of the arguments, on behalf of the work. Raises QueueUnavailable.

    Whatever is published for a URL is one job. The same work again, swept or promoted, changes its token
    and its place in line; it adds nothing. What comes from a domain that is left alone for longer than
    clients wait is not taken.
    """
    try:
        job = _job(Order(task, work_key, token, arguments, lane))
        found = connections.run(frontier.enqueue(job))
        if isinstance(found, Full):
            raise QueueUnavailable("Too much waits for its origin.", retry_seconds=found.wait_seconds)
        if is_left_alone(found):
            connections.run(frontier.remove(job.key, job.wish.id))
            raise QueueUnavailable("Its origin is left alone for now.", retry_seconds=found.closed_seconds)
    except StoreUnavailable as error:
        raise QueueUnavailable(f"The lane {lane} does not take work: {error}") from error
    except ValueError as error:  # which has the URL, and that may hold secrets: this is logged
        raise QueueUnavailable(f"The lane {lane} does not take work: No host in its URL.") from error


def publish_all(orders: Sequence[Order]) -> list[Enqueued | Joined | Full | None]:
    """The same for many in one trip, patiently; what the frontier says of each. None: a URL that nobody can ask for.

    What is Full, or left alone for now (`is_left_alone`), was not taken. Raises StoreUnavailable.
    """
    jobs = [_job_or_none(order) for order in orders]
    taken = iter(connections.run_together([frontier.enqueue(job) for job in jobs if job]))
    found = [next(taken) if job else None for job in jobs]
    closed = [job for job, one in zip(jobs, found, strict=True) if job and one and is_left_alone(one)]
    connections.run_together([frontier.remove(job.key, job.wish.id) for job in closed])
    return found


def is_left_alone(found: Enqueued | Joined | Full) -> bool:
    """Whether its domain is not asked for longer than clients wait. What a fetcher has in hand goes on."""
    if isinstance(found, Full) or found.closed_seconds <= conf().DEFAULT_RETRY_TIMEOUT:
        return False
    return not _is_in_hand(found)


def _job(order: Order) -> Job:
    """Raises ValueError for a URL without host."""
    url, place = str(order.arguments[0]), PLACES[order.lane]
    errand = Errand(order.task, order.work_key, order.token, tuple(order.arguments))
    return Job(
        url,
        url_key(url),
        Wish(order.work_key, errand.payload, order.token),
        priority=place.priority if order.priority is None else order.priority,
        lane=place.lane,
        expected_seconds=order.expected_seconds,
        expires_at=signed_urls.expires_at(url),
        obeys_robots=fetch_conf.task(order.task).obeys_robots,
        egress=_egress(url),
    )


def _job_or_none(order: Order) -> Job | None:
    try:
        return _job(order)
    except ValueError:
        return None


def _is_in_hand(found: Enqueued | Joined) -> bool:
    """Whether a fetcher has it already."""
    return isinstance(found, Joined) and found.state not in {"queued", "later"}


def _egress(url: str) -> str:
    """The way out for the URL's domain. Raises ValueError for a URL without host."""
    chosen = egress.choose(tuning.egresses(), scopes(url).registrable)
    return "" if chosen is None else chosen.name
