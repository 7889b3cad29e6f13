"""One worker of many threads in place of the stack's painters: a hundred preparations that only sleep."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import requests

from tests.support.stack import ROOT, Stack

START_SECONDS = 60


@contextmanager
def sleepers(stack: Stack, threads: int) -> Iterator[None]:
    """Runs the worker. As many contents as it has threads are prepared side by side."""
    stack.stop("paint-now")
    celery = (
        "-m",
        "celery",
        "-A",
        "project",
        "--quiet",
        "worker",
        "--queues",
        "paint.now",
        "--hostname",
        "sleepers@%h",
    )
    pool = ("--pool", "threads", "--concurrency", str(threads), "--without-gossip", "--without-mingle")
    worker = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", sys.executable, *celery, *pool],
        cwd=ROOT,
        env={**stack.environment, "PUBLIC_URL": stack.base_url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        requests.get(f"{stack.base_url}/slow/first", timeout=START_SECONDS).raise_for_status()
        yield
    finally:
        worker.kill()
        worker.wait()
