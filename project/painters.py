"""`python -m project.painters --queues LANES --concurrency N`: painters, the workers of lanes (retry.lane_worker).

This process forks them, forks another where one has ended, and says in `state` that the queues have workers. TERM has
each painter finish its task and end.
"""

import argparse
import logging
import os
import signal
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
django.setup(set_prefix=False)

import setproctitle  # noqa: E402
from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402

from resources import sandbox  # noqa: E402
from retry.lane_worker import LaneWorker  # noqa: E402

from . import celery, lane_workers  # noqa: E402

SIGN_IN_SECONDS = 2.0
FORK_PAUSE_SECONDS = 1.0
"""A painter that ends at once is not replaced more often than this."""

ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_log = logging.getLogger("tarry.workers")


class Painters:
    """`size` painters of the queues, as children of this process, which has one thread."""

    def __init__(self, queues: Sequence[str], size: int) -> None:
        self._queues = queues
        self._size = size
        self._children: set[int] = set()
        self._fork_at = self._sign_in_at = 0.0

    def run(self) -> None:
        """Returns when all have ended after one of the signals ENDS."""
        awaited = {*ENDS, signal.SIGCHLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
        ending = False
        while not ending or self._children:
            now = time.monotonic()
            if not ending:
                self._go_on(now)
            told = signal.sigtimedwait(awaited, FORK_PAUSE_SECONDS)
            if told and told.si_signo in ENDS:
                ending = True
                self._end_children()
            self._bury_children()

    def _go_on(self, now: float) -> None:
        if len(self._children) < self._size and now >= self._fork_at:
            self._fork_at = now + FORK_PAUSE_SECONDS
            for _ in range(self._size - len(self._children)):
                self._fork()
        if now >= self._sign_in_at:
            self._sign_in_at = now + SIGN_IN_SECONDS
            lane_workers.sign_in_queues(self._queues)

    def _fork(self) -> None:
        parent = os.getpid()
        if child := os.fork():
            self._children.add(child)
        else:
            paint(self._queues, parent)

    def _end_children(self) -> None:
        for child in self._children:
            os.kill(child, signal.SIGTERM)

    def _bury_children(self) -> None:
        while self._children:
            child, status = os.waitpid(-1, os.WNOHANG)
            if not child:
                return
            self._children.discard(child)
            if status:
                _log.error("a painter ended", extra={"pid": child, "status": os.waitstatus_to_exitcode(status)})


def paint(queues: Sequence[str], parent: int) -> NoReturn:
    """Is a painter, in a child of the process `parent`, until it is told to end, or that process is gone."""
    status = 1
    try:
        in_turn = not settings.SMALL  # with SMALL=1 refreshes come after clients
        worker = LaneWorker(queues, in_turn=in_turn, task_seconds=settings.CELERY_TASK_TIME_LIMIT)
        for number in ENDS:
            signal.signal(number, lambda *_: setattr(worker, "ending", True))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        sandbox.end_with_parent(parent)
        setproctitle.setproctitle(f"tarry: painter of {','.join(queues)}")
        connections.close_all()
        worker.run()
        status = 0
    except BaseException:  # noqa: BLE001  this process ends
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> None:
    parser = argparse.ArgumentParser(prog="project.painters", description=__doc__)
    parser.add_argument("--queues", required=True, help="lanes, with commas between them")
    parser.add_argument("--concurrency", type=int, default=1, help="the number of painters")
    given = parser.parse_args()
    celery.app.loader.import_default_modules()
    celery.app.finalize()
    Painters(given.queues.split(","), given.concurrency).run()


if __name__ == "__main__":
    main()
