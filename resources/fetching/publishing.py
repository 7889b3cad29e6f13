"""Lanes of the deferral protocol whose work is fetched: their work goes into the frontier."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from retry import connections
from retry.errors import QueueUnavailable, StoreUnavailable
from retry.work import Argument

from . import frontier
from .jobs import Full, Job, Lane, Priority, Wish, url_key


@dataclass(frozen=True, slots=True)
class Place:
    """Where work of a protocol lane stands in the frontier."""

    lane: Lane
    priority: Priority


PLACES = {
    "fetch.fast": Place("fast", Priority.INTERACTIVE),
    "fetch.slow": Place("slow", Priority.INTERACTIVE),
    "fetch.refresh": Place("fast", Priority.ORDINARY),
    "fetch.warm": Place("slow", Priority.ORDINARY),
}


def publish(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Asks for the URL that is the first of the arguments, on behalf of the work. Raises QueueUnavailable.

    Whatever is published for a URL is one job. The same work again, swept or promoted, changes its token
    and its place in line; it adds nothing.
    """
    url, place = str(arguments[0]), PLACES[lane]
    call = json.dumps({"task": task, "work": work_key, "token": token, "arguments": list(arguments)})
    wish = Wish(work_key, call, token)
    job = Job(url, url_key(url), wish, priority=place.priority, lane=place.lane)
    try:
        found = connections.run(frontier.enqueue(job))
    except (StoreUnavailable, ValueError) as error:
        raise QueueUnavailable(f"The lane {lane} does not take work: {error}") from error
    if isinstance(found, Full):
        raise QueueUnavailable(f"Too much waits for the host of {url}.")
