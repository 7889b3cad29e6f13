"""Lanes: where work goes to be done. A lane is a Celery queue of the same name."""

import json
from collections.abc import Sequence

from celery import current_app
from kombu.exceptions import OperationalError

from . import observing
from .errors import QueueUnavailable
from .work import Argument


def publish(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    """Puts the call task(work_key, token, *arguments) into the lane. Raises QueueUnavailable.

    Does not claim: several copies with one token do no harm, only one of them starts.
    """
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


def publish_again(spec: str | bytes, work_key: str, token: int, lane: str) -> None:
    """Publishes work from what its claim holds. Raises QueueUnavailable."""
    held = json.loads(spec)
    publish(held["task"], work_key, token, held["arguments"], lane)
