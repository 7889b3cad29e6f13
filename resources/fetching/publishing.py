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
    "fetch.warm": Place("slow", Priority.ORDINARY),
}


def publish(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Asks for the URL that is the first of the arguments, on behalf of the work. Raises QueueUnavailable.

    Whatever is published for a URL is one job. The same work again, swept or promoted, changes its token
    and its place in line; it adds nothing. What comes from a domain that is left alone for longer than
    clients wait is not taken.
    """
    url, place = str(arguments[0]), PLACES[lane]
    wish = Wish(work_key, Errand(task, work_key, token, tuple(arguments)).payload, token)
    try:
        job = Job(
            url,
            url_key(url),
            wish,
            priority=place.priority,
            lane=place.lane,
            expires_at=signed_urls.expires_at(url),
            obeys_robots=fetch_conf.task(task).obeys_robots,
            egress=_egress(url),
        )
        found = connections.run(frontier.enqueue(job))
        if isinstance(found, Full):
            raise QueueUnavailable("Too much waits for its origin.", retry_seconds=found.wait_seconds)
        if found.closed_seconds > conf().DEFAULT_RETRY_TIMEOUT and not _is_in_hand(found):
            connections.run(frontier.remove(job.key, wish.id))
            raise QueueUnavailable("Its origin is left alone for now.", retry_seconds=found.closed_seconds)
    except (StoreUnavailable, ValueError) as error:
        raise QueueUnavailable(f"The lane {lane} does not take work: {error}") from error


def _is_in_hand(found: Enqueued | Joined) -> bool:
    """Whether a fetcher has it already."""
    return isinstance(found, Joined) and found.state not in {"queued", "later"}


def _egress(url: str) -> str:
    """The way out for the URL's domain. Raises ValueError for a URL without host."""
    chosen = egress.choose(tuning.egresses(), scopes(url).registrable)
    return "" if chosen is None else chosen.name
