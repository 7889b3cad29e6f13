"""Beat's scheduler, in memory: no file that a kill could damage. Repairs its times after the clock is set back.

Then it also removes nginx' hot answers: nginx would serve them until their hour comes again. While no worker takes
the tasks, a few are enough.

Each machine has a beat, for what it does for itself. One of them is active for the site, another one soon after that
machine is gone. redbeat has such a lock too, but keeps the schedule in Redis, where settings do not change it. A task
waits once at most, by the clock of `state`: with an expiry, a worker whose clock is ahead would drop it.
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

from . import nginx_reload
from .paths import DataDirectory
from .preflight import StartError
from .schedule import BEAT_QUEUE, waiting_key

NOTABLE_SETBACK = timedelta(seconds=10)
"""The least setback that matters: after a smaller correction nginx' answers are hardly older."""
ACTIVE_KEY, ACTIVE_SECONDS = "beat:active", 10

LEAST_WAITING_SECONDS = 10
"""A message that waits for less is not followed by another; nor one that waits for less than its interval."""

MAX_WAITING_TASKS = 1000
"""While so many tasks wait, none is published: they take a megabyte of `state`, and workers drop expired ones."""

HOT_FILE_NAME = re.compile("[0-9a-f]{32}")
"""The name of the file of an answer in nginx' cache. A file that nginx still writes has another name."""

_log = logging.getLogger("tarry.beat")


class Scheduler(beat.Scheduler):
    """Beat's scheduler. Celery's own has nothing due after the clock is set back, until it is again where it was."""

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
        """Publishes the task of an entry, unless it waits already, too many wait, or another beat is the active one."""
        is_own = entry.options["queue"] != BEAT_QUEUE
        if (is_own or _is_active()) and not _is_queue_full(entry.options["queue"]) and _begins_to_wait(entry):
            super().apply_entry(entry, producer)


def _is_active() -> bool:
    try:
        return locks.hold_role(ACTIVE_KEY, settings.INSTALLATION, ACTIVE_SECONDS)
    except StoreUnavailable:  # nothing can be published, either
        return False


def _begins_to_wait(entry: Any) -> bool:
    seconds = max(LEAST_WAITING_SECONDS, int(entry.schedule.run_every.total_seconds()))
    key = waiting_key(entry.task, entry.options["queue"])
    try:
        return bool(stores.fast_client("state").set(key, 1, nx=True, ex=seconds))
    except RedisError:
        return True


def _is_queue_full(queue: str) -> bool:
    try:
        waiting = stores.fast_client("state").llen(queue)
    except RedisError:  # publishing waits for the server
        return False
    return isinstance(waiting, int) and waiting >= MAX_WAITING_TASKS


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
