"""gunicorn's configuration for both instances, told apart by TARRY_INSTANCE."""

import os
from pathlib import Path
from typing import Any

from django.conf import settings
from gunicorn.glogging import Logger
from prometheus_client import multiprocess

from . import main_worker, program, worker_process
from .paths import BASE_DIR
from .preflight import listen_backlog

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

_waits = os.environ["TARRY_INSTANCE"] == "retry"

proc_name = f"tarry-{os.environ['TARRY_INSTANCE']}"
chdir = str(BASE_DIR)
umask = 0o077
backlog = listen_backlog()
# nginx has limits, and better words for requests beyond them.
limit_request_line = 0
limit_request_fields, limit_request_field_size = 1_000, 65_536
control_socket_disable = True  # all instances would share one path
keepalive = 75 if settings.MAIN_LISTEN or settings.RETRY_INSTANCE_LISTEN else 2  # longer than nginx keeps connections
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  gunicorn's own heartbeat files

if _waits:
    worker_class = "retry.gunicorn_worker.RetryWorker"
    workers = settings.RETRY_WORKERS
    # Longer than the longest wait: a reload must not cut it short.
    graceful_timeout = int(settings.DEFAULT_RETRY_TIMEOUT) + 5
else:
    worker_class = "project.main_worker.SheddingWorker"
    http_parser = "python"  # the one that the worker's class extends
    post_worker_init = main_worker.note_worker_ready
    workers = settings.MAIN_WORKERS
    threads = settings.MAIN_THREADS
    # A layer that is being sent during a reload is taken in. At the end of the site supervisord waits for less long.
    graceful_timeout = int(settings.ADMIN_TIMEOUT) + 5

REQUEST_FAILED = "Error handling request"
"""The beginning of gunicorn's message about a request that failed outside of Django."""

logconfig_dict = {
    **settings.LOGGING,
    "loggers": {**settings.LOGGING["loggers"], "gunicorn.error": {"handlers": [], "level": "INFO", "propagate": True}},
}


class logger_class(Logger):  # type: ignore[misc]  # noqa: N801  the name that gunicorn reads; untyped
    """gunicorn's log without a line for every request: nginx logs the failed ones."""

    def access(self, *_: Any) -> None:
        pass

    def exception(self, msg: str, *args: Any, **options: Any) -> None:
        """Logs an exception without the address of the request, which may be a secret."""
        if msg.startswith(REQUEST_FAILED):
            msg, args = REQUEST_FAILED, ()
        super().exception(msg, *args, **options)


main_worker.AGES.share()


def post_fork(server: Any, worker: Any) -> None:
    """Has a worker load the code of now, if the master was forked with other code."""
    if program.is_code_loaded() and not program.is_code_current():
        worker_process.execute_anew(worker)


def pre_request(worker: Any, req: Any) -> None:
    """Does nothing, where gunicorn by itself makes a line for its log of debugging."""


def child_exit(server: Any, worker: Any) -> None:
    """Takes a dead worker's gauges out of the figures. Its counters stay in the sums."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
