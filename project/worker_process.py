"""`python -m project.worker_process ARGUMENT…`: a worker of gunicorn that loads the code which is on the disk.

gunicorn's master was forked with the code of its start, and so are its workers. After a change of the code, as in an
upgrade, its new workers execute Python anew: with the master's sockets, and with the number, the age and the file of
heartbeats by which it knows them. The master may be of an earlier version: each reads the facts that those before it
hand over.
"""

import json
import os
import sys
from typing import Any, NoReturn

from gunicorn import sock
from gunicorn.app.wsgiapp import WSGIApplication

from . import main_worker

HANDED_OVER = "TARRY_WORKER"
"""The environment variable with the facts that the master handed over."""


def execute_anew(worker: Any) -> NoReturn:
    """Replaces this process, a worker that gunicorn has just forked, by one of the present code."""
    given = {
        "age": worker.age,
        "ppid": worker.ppid,
        "timeout": worker.timeout,
        "sockets": [listening.fileno() for listening in worker.sockets],
        "heartbeat": worker.tmp.fileno(),
        "ages": main_worker.AGES.descriptor,
    }
    for descriptor in (*given["sockets"], given["heartbeat"], given["ages"]):
        os.set_inheritable(descriptor, True)
    os.environ[HANDED_OVER] = json.dumps(given)
    command = [sys.executable, "-m", __name__, *sys.argv[1:]]
    os.execv(command[0], command)  # noqa: S606  a list of our own


def main() -> None:
    """Runs the worker, with gunicorn's own arguments."""
    given = json.loads(os.environ.pop(HANDED_OVER))
    application = WSGIApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog="gunicorn")
    config = application.cfg
    main_worker.AGES.attach(given["ages"])  # not those that its own configuration has made
    logger = config.logger_class(config)
    sockets = sock.create_sockets(config, logger, fds=given["sockets"])
    worker = config.worker_class(given["age"], given["ppid"], sockets, application, given["timeout"], config, logger)
    worker.tmp.close()
    worker.tmp._tmp = os.fdopen(given["heartbeat"], "w+b", 0)
    worker.pid = os.getpid()
    logger.info("Booting worker with pid: %s, and with the code of now", worker.pid)
    worker.init_process()


if __name__ == "__main__":
    main()
