"""A worker of lanes: takes messages from their queues and calls the tasks, one after the other, in one process.

A Celery worker on the same queues does the same, and takes two processes and ten times as long for each message. Both
may work at one queue. A message is lost with its worker: claims are what counts, and the sweeper publishes the work
again.
"""

import logging
import signal
import time
from collections.abc import Sequence
from functools import cache
from typing import cast

import redis
from celery import current_app
from celery.exceptions import NotRegistered
from django.db import close_old_connections
from redis.backoff import NoBackoff
from redis.retry import Retry

from . import servers, worker
from .conf import conf
from .errors import StoreUnavailable
from .messages import Message, read_message

BLOCKED_SECONDS = 1
"""A worker without work looks so often whether it is to end."""

QUEUE_TIMEOUT_SECONDS = 5
"""A connection to the broker that is silent for longer is given up."""

AWAY_SECONDS = 1.0
"""The pause after a call that the broker did not answer."""

_log = logging.getLogger("tarry.preparing")


class LaneWorker:
    """Takes from the lanes in turn, or from the first that has work. `task_seconds` is the most that a task may take.

    A task that takes longer ends its process.
    """

    def __init__(self, lanes: Sequence[str], *, in_turn: bool, task_seconds: int) -> None:
        self._lanes = list(lanes)
        self._in_turn = in_turn
        self._task_seconds = task_seconds
        self._is_away = False
        self.ending = False

    def run(self) -> None:
        """Works until `ending` is set: then the task in hand is the last one."""
        while not self.ending:
            if found := self._take_message():
                self.handle(*found)

    def handle(self, lane: str, text: bytes) -> None:
        """Calls the task of a message. Does not raise its errors."""
        try:
            self._call_task(lane, read_message(text))
        except NotRegistered as error:
            _log.error("no such task", extra={"task": str(error)})
        except (ValueError, StoreUnavailable) as error:
            _log.error("a message was lost", extra={"lane": lane, "error": str(error)})
        except Exception:  # noqa: BLE001 - the edge of a worker's process
            _log.exception("a task failed")

    def _take_message(self) -> tuple[str, bytes] | None:
        try:
            found = _wait_for_message(self._lanes)
        except redis.RedisError as error:
            if not self._is_away:  # once for each outage
                _log.warning("the broker is away", extra={"error": str(error)})
            self._is_away = True
            time.sleep(AWAY_SECONDS)
            return None
        self._is_away = False
        if found and self._in_turn:
            self._lanes.append(self._lanes.pop(self._lanes.index(found[0])))
        return found

    def _call_task(self, lane: str, message: Message) -> None:
        task = current_app.tasks[message.task]
        close_old_connections()
        signal.alarm(self._task_seconds)  # by default this signal ends the process
        try:
            with worker.message_in_hand(lane, message):
                task.run(*message.arguments, **message.named)
        finally:
            signal.alarm(0)
            close_old_connections()


def _wait_for_message(queues: Sequence[str]) -> tuple[str, bytes] | None:
    """Takes the next message from the first of the queues that has one; None if none comes. Raises RedisError."""
    client = _make_client(conf().QUEUES_URL or conf().REDIS_URL)
    reply = servers.run_command(client, ("BRPOP", *queues, BLOCKED_SECONDS))
    found = cast("list[bytes] | None", reply)
    return (found[0].decode(), found[1]) if found else None


@cache
def _make_client(address: str) -> redis.Redis:
    return servers.make_client(address, QUEUE_TIMEOUT_SECONDS, Retry(NoBackoff(), 0))
