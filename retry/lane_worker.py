"""A worker of lanes: takes messages from their queues and calls the tasks, one after the other, in one process.

A Celery worker on the same queues does the same, and takes two processes and ten times as long for each message. Both
may work at one queue. A message is lost with its worker: claims are what counts, and the sweeper publishes the work
again.
"""

import json
import logging
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import cast
from uuid import uuid4

import redis
from celery import current_app
from celery.exceptions import NotRegistered
from django.db import close_old_connections
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

from . import claims, servers, worker
from .claims import StartedWork
from .conf import conf
from .errors import StoreUnavailable
from .messages import Message, read_message
from .pipelines import Command
from .scripts import Reply, ScriptCall
from .server_urls import is_cluster

BLOCKED_SECONDS = 1
"""A worker without work looks so often whether it is to end."""

QUEUE_TIMEOUT_SECONDS = 5
"""A connection to the broker that is silent for longer is given up."""

AWAY_SECONDS = 1.0
"""The pause after a call that the broker did not answer."""

_log = logging.getLogger("tarry.preparing")


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """A message with its queue, and the work that was started with it. A lane may have lost the message of a work.

    `lane` is that of the work, or the queue if none was started. `queue` is empty without a message.
    """

    lane: str
    queue: str
    text: bytes | None
    started: StartedWork | None = None


class LaneWorker:
    """Takes from the lanes in turn, or from the first that has work. `task_seconds` is the most that a task may take.

    A task that takes longer ends its process.
    """

    def __init__(self, lanes: Sequence[str], *, in_turn: bool, task_seconds: int) -> None:
        self._lanes = list(lanes)
        self._in_turn = in_turn
        self._task_seconds = task_seconds
        self._is_away = False
        self._nonce = ""
        self.ending = False

    def run(self) -> None:
        """Works until `ending` is set: then the task in hand is the last one."""
        while not self.ending:
            if found := self._take_message():
                self.handle(found)
            else:
                close_old_connections()  # not before a task, whose client waits

    def handle(self, taken: TakenMessage) -> None:
        """Does the work that was started, then calls the task of the message. Does not raise their errors."""
        if taken.started:
            with _errors_logged(taken.lane):
                self._do_started(taken.lane, taken.started)
        if taken.text is not None:
            with _errors_logged(taken.queue):
                self._call_task(taken.queue, read_message(taken.text), taken.started)

    def _take_message(self) -> TakenMessage | None:
        self._nonce = self._nonce or uuid4().hex  # that of a call whose reply was lost
        try:
            found = _wait_for_message(self._lanes, self._nonce)
        except redis.RedisError as error:
            if not self._is_away:  # once for each outage
                _log.warning("the broker is away", extra={"error": str(error)})
            self._is_away = True
            time.sleep(AWAY_SECONDS)
            return None
        self._is_away, self._nonce = False, ""
        if found and self._in_turn and found.lane in self._lanes:
            self._lanes.append(self._lanes.pop(self._lanes.index(found.lane)))
        return found

    def _do_started(self, lane: str, started: StartedWork) -> None:
        with self._limited(), worker.message_in_hand(lane, _NO_MESSAGE):
            worker.call_task(started)

    def _call_task(self, queue: str, message: Message, started: StartedWork | None) -> None:
        """Calls the task of the message, unless it stands for the work that was started."""
        if started and json.loads(started.spec)["task"] == message.task:
            return
        task = current_app.tasks[message.task]
        with self._limited(), worker.message_in_hand(queue, message):
            task.run(*message.arguments, **message.named)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        signal.alarm(self._task_seconds)  # by default this signal ends the process
        try:
            yield
        finally:
            signal.alarm(0)
            close_old_connections()


_NO_MESSAGE = Message("", (), {})


@contextmanager
def _errors_logged(lane: str) -> Iterator[None]:
    try:
        yield
    except NotRegistered as error:
        _log.error("no such task", extra={"task": str(error)})
    except (ValueError, StoreUnavailable) as error:
        _log.error("a message was lost", extra={"lane": lane, "error": str(error)})
    except Exception:  # noqa: BLE001 - the edge of a worker's process
        _log.exception("a task failed")


def _wait_for_message(queues: Sequence[str], nonce: str) -> TakenMessage | None:
    """Takes the next message from the first of the queues that has one; None if none comes. Raises RedisError.

    Where it can, it starts the lane's first work in the same trip.
    """
    client = _make_client(conf().QUEUES_URL or conf().REDIS_URL)
    waiting = ("BRPOP", *queues, BLOCKED_SECONDS)
    if not _starts_at_once(queues):
        return _as_taken(cast("list[bytes] | None", servers.run_command(client, waiting)), None)
    call = claims.start_first_call(queues, nonce)
    found, reply = _run_both(client, waiting, call)
    return _as_taken(found, claims.read_started_in_lane(reply, nonce))


def _as_taken(found: list[bytes] | None, started: tuple[str, StartedWork] | None) -> TakenMessage | None:
    queue, text = (found[0].decode(), found[1]) if found else ("", None)
    if started:
        lane, work = started
        return TakenMessage(lane, queue, text, work)
    return TakenMessage(queue, queue, text) if found else None


def _starts_at_once(queues: Sequence[str]) -> bool:
    """Tells whether a script at the server of the messages can start work: `state` is that server, and whole."""
    is_one = not conf().QUEUES_URL and conf().STATE_PARTITIONS == 1 and not is_cluster(conf().REDIS_URL)
    lanes = conf().RETRY_LANES
    own = all(name in lanes and "publisher" not in lanes[name] for name in queues)
    return is_one and own and worker.is_fit()


def _run_both(client: redis.Redis, waiting: Command, call: ScriptCall) -> tuple[list[bytes] | None, Reply]:
    """Waits for a message, and runs the call then. The server has both from the beginning."""
    found, reply = servers.run_pipeline(client, [waiting, call.by_digest()])
    if isinstance(found, redis.ResponseError):
        raise found
    if isinstance(reply, NoScriptError):
        reply = servers.run_command(client, call.by_text())
    if isinstance(reply, redis.ResponseError):
        raise reply
    return cast("list[bytes] | None", found), reply


@cache
def _make_client(address: str) -> redis.Redis:
    return servers.make_client(address, QUEUE_TIMEOUT_SECONDS, Retry(NoBackoff(), 0))
