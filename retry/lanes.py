"""Lanes: where work goes to be done. A lane is a Celery queue of the same name, unless it names a publisher."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

from celery import current_app
from django.utils.module_loading import import_string
from kombu.exceptions import OperationalError

from . import observing
from .conf import conf
from .errors import QueueUnavailable
from .work import Argument

Publisher = Callable[[str, str, int, Sequence[Argument], str], None]
"""Takes task, work key, token, arguments and lane. Raises QueueUnavailable.

Work is published again when it is promoted, aged or swept: the same work key with the same or a later
token. The publisher must not let that become work done twice.
"""


def publish(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Puts the call task(work_key, token, *arguments) into the lane. Raises QueueUnavailable.

    Does not claim: several copies with one token do no harm, only one of them starts.
    """
    named = conf().RETRY_LANES[lane].get("publisher") if lane in conf().RETRY_LANES else None
    if named:
        publisher(named)(task, work_key, token, arguments, lane)
    else:
        _publish_to_celery(task, work_key, token, arguments, lane)


def publish_again(spec: str | bytes, work_key: str, token: int, lane: str) -> None:
    """Publishes work from what its claim holds. Raises QueueUnavailable."""
    held = json.loads(spec)
    publish(held["task"], work_key, token, held["arguments"], lane)


@cache
def publisher(path: str) -> Publisher:
    """The function of that dotted path. Raises ImportError."""
    return cast(Publisher, import_string(path))


def _publish_to_celery(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    try:
        with observing.timed("broker"):
            current_app.send_task(
                task,
                args=[work_key, token, *arguments],
                queue=lane,
                retry=False,
                ignore_result=True,
            )
    except (OperationalError, OSError) as error:
        raise QueueUnavailable(f"The lane {lane} does not take work: {error}") from error
