"""Lanes: the queues that work waits in. A lane is a Celery queue of its name unless it names a publisher."""

import json
from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import cast

from django.utils.module_loading import import_string

from . import messages, metrics, server_urls, stores
from .conf import conf
from .errors import QueueUnavailable, StoreUnavailable
from .scripts import Reply, ScriptCall
from .work import Argument, Work

Publisher = Callable[[str, str, int, Sequence[Argument], str], None]
"""Takes task, work key, token, arguments and lane. Raises QueueUnavailable.

Promoted, aged or swept work is published again: the same work key with the same or a later token. The publisher must
not let the work be done twice.
"""

Line = Callable[[str], Generator[ScriptCall, Reply, int | None]]
"""Takes the key of queued work. Its steps return the number of works before it, None if it is being done."""


def publish_work(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Puts the call task(work_key, token, *arguments) into the lane. Raises QueueUnavailable.

    Does not claim. Several copies with one token do no harm: only one of them starts.
    """
    named = conf().RETRY_LANES[lane].get("publisher") if lane in conf().RETRY_LANES else None
    if named:
        load_publisher(named)(task, work_key, token, arguments, lane)
    else:
        send_task(task, [work_key, token, *arguments], lane)


UNKNOWN_TOKEN = 0
"""The token in a message that was written before its claim: workers of lanes start the first work there, by its own."""


def write_claim_message(work: Work, lane: str) -> str:
    """The message for the lane that the script of a claim can send itself; empty where publish_work() must follow.

    It can where the lane is a queue of Celery in `state`, and `state` no Cluster.
    """
    is_elsewhere = conf().QUEUES_URL or server_urls.is_cluster(conf().REDIS_URL)
    if is_elsewhere or lane not in conf().RETRY_LANES or "publisher" in conf().RETRY_LANES[lane]:
        return ""
    return messages.write_message(work.task, [work.key, UNKNOWN_TOKEN, *work.arguments], lane)


def republish_work(spec: str | bytes, work_key: str, token: int, lane: str) -> None:
    """Publishes work again from the spec in its claim. Raises QueueUnavailable."""
    held = json.loads(spec)
    publish_work(held["task"], work_key, token, held["arguments"], lane)


@cache
def load_publisher(path: str) -> Publisher:
    return cast(Publisher, import_string(path))


@cache
def load_line(path: str) -> Line:
    return cast(Line, import_string(path))


def send_task(task: str, arguments: Sequence[Argument], queue: str) -> None:
    """Has a worker of the queue call the task. Raises QueueUnavailable."""
    try:
        with metrics.time_call("broker"):
            stores.push_message(queue, messages.write_message(task, arguments, queue))
    except StoreUnavailable as error:
        raise QueueUnavailable(f"The lane {queue} does not take work: {error}") from error


def count_messages(queues: Sequence[str]) -> dict[str, int]:
    """Counts the messages that wait in Celery's queues. Raises StoreUnavailable."""
    with stores.translate_errors("state"), stores.broker_client().pipeline(transaction=False) as pipeline:
        for queue in queues:
            pipeline.llen(queue)
        return dict(zip(queues, map(int, pipeline.execute()), strict=True))


HEARD_SECONDS = 10
"""A machine counts as working at a lane, or as unfit, for so long since it last said so."""

_UNFIT_KEY = "workers:unfit"


def note_worker(lane: str) -> None:
    """Notes in `state` that this machine works at the lane. Fails fast. Raises StoreUnavailable."""
    stores.execute_call(_machines_call(_workers_key(lane), conf().MACHINE))


def note_unfit() -> None:
    """Notes that workers of this machine lack what they need. Raises StoreUnavailable."""
    _list_machines(_UNFIT_KEY, conf().MACHINE)


def list_unfit_machines() -> list[str]:
    """Lists the machines whose workers lacked something lately. Raises StoreUnavailable."""
    return sorted(_list_machines(_UNFIT_KEY, ""))


def has_other_machine(lane: str) -> bool:
    """Tells whether another machine works at the lane and lacks nothing. Raises StoreUnavailable."""
    return bool(_list_machines(_workers_key(lane), "") - _list_machines(_UNFIT_KEY, "") - {conf().MACHINE})


def _list_machines(key: str, machine: str) -> set[str]:
    found = stores.execute_patiently(_machines_call(key, machine))
    return {name.decode() for name in cast(list[bytes], found)}


def _machines_call(key: str, machine: str) -> ScriptCall:
    return ScriptCall("state", "machines", [key], [machine, HEARD_SECONDS])


def _workers_key(lane: str) -> str:
    return f"workers:machines:{lane}"
