"""Beat's scheduler, in memory: no file that a kill could damage. Repairs its times after the clock is set back.

Then it also removes nginx' hot answers: nginx would serve them until their hour comes again.

Each machine has a beat, for what it does for itself. One of them is active for the site, another one soon after that
machine is gone. redbeat has such a lock too, but keeps the schedule in Redis, where settings do not change it. A task
waits once: with an expiry instead, a worker whose clock is ahead would drop it.
"""

import logging
import os
import re
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from celery import beat
from django.conf import settings
from redis.exceptions import RedisError

from resources import locks
from retry import stores
from retry.errors import StoreUnavailable

from . import nginx_reload, schedule
from .paths import DataDirectory
from .preflight import StartError
from .schedule import BEAT_QUEUE

NOTABLE_SETBACK = timedelta(seconds=10)
"""The least setback that matters: after a smaller correction nginx' answers are hardly older."""
ACTIVE_KEY, ACTIVE_SECONDS = "beat:active", 10

WAITING_SECONDS = 600
"""A message that waits for less is not followed by another of its task, unless the queue is empty: it was lost then."""

HOT_FILE_NAME = re.compile("[0-9a-f]{32}")
"""The name of the file of an answer in nginx' cache. A file that nginx still writes has another name."""

_log = logging.getLogger("tarry.beat")


class Scheduler(beat.Scheduler):
    """Beat's scheduler. Celery's own has nothing due after the clock is set back, until it is again where it was."""

    _stands_by = False

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Publishes the due tasks. Returns the seconds until the next one is due."""
        now = datetime.now(UTC)
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at and entry.last_run_at > now]
        if any(entry.last_run_at > now + NOTABLE_SETBACK for entry in ahead if entry.last_run_at):
            _have_nginx_forget()
        for entry in ahead:
            entry.last_run_at = entry.default_now()
        if ahead:
            self.populate_heap()  # it has the times of before
        return float(super().tick(*args, **kwargs))

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Publishes the task of an entry, unless it waits already, or another beat is the active one."""
        queue = entry.options["queue"]
        if (queue != BEAT_QUEUE or self._is_active()) and _begins_to_wait(entry.task, queue):
            super().apply_entry(entry, producer)

    def _is_active(self) -> bool:
        """Tells whether this beat is the active one. One that becomes so begins as a new site does."""
        try:
            is_active = locks.hold_role(ACTIVE_KEY, settings.INSTALLATION or settings.MACHINE, ACTIVE_SECONDS)
        except StoreUnavailable:  # publishing waits for the server
            return True
        if is_active and self._stands_by:
            for name in schedule.AT_ONCE & self.schedule.keys():
                self.schedule[name].last_run_at = schedule.LONG_AGO
            self.populate_heap()
        self._stands_by = not is_active
        return is_active


def _begins_to_wait(task: str, queue: str) -> bool:
    """Notes that a message of the task waits; False if one does. In an empty queue none does, whatever was noted."""
    client, key = stores.fast_client("state"), schedule.waiting_key(task, queue)
    try:
        return bool(client.set(key, 1, nx=True, ex=WAITING_SECONDS) or not stores.broker_client().llen(queue))
    except RedisError:
        return True


def _have_nginx_forget() -> None:
    try:
        forget_hot_answers(DataDirectory(settings.DATA_DIR).hot, settings.NGINX_PID_FILE)
    except OSError as error:  # its answers are older than they should be, and nothing else
        _log.warning("nginx does not forget its hot answers", extra={"error": str(error)})


def forget_hot_answers(hot: Path, pid_file: Path) -> bool:
    """Removes nginx' hot answers, and starts workers that have none open. Returns False if no nginx runs."""
    try:
        pid = nginx_reload.running_nginx(pid_file)
    except StartError:
        return False
    for file in hot.rglob("*"):
        if HOT_FILE_NAME.fullmatch(file.name):
            file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGHUP)
    return True
