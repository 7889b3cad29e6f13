"""A Django project whose threads prepare content on request, under gunicorn, with as many threads as Tarry's main.

Alone it keeps prepared content in Django's own cache; others stand in front of it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stack import free_port

from .sites import Site, process

WORKERS, THREADS = 2, 8
BACKLOG = 4096
TIMEOUT_SECONDS = 150
CACHED = "/slow/cached?size=14000"


@contextmanager
def start(folder: Path, tile: bytes) -> Iterator[Site]:
    """Gunicorn, and nothing in front of it."""
    port = free_port()
    with running(folder, tile, f"127.0.0.1:{port}", keeps=True):
        site = Site(f"127.0.0.1:{port}", CACHED, folder / "slow")
        site.wait_for_cached()
        yield site


@contextmanager
def running(folder: Path, tile: bytes, bind: str, *, keeps: bool = False, threads: int = THREADS) -> Iterator[None]:
    """At the address, as gunicorn writes them. Does not wait until it answers."""
    file = folder / "tile"
    file.write_bytes(tile)
    environment = {**os.environ, "DATA_DIR": str(folder), "TILE": str(file), "KEEPS": str(int(keeps))}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    command = [sys.executable, "-m", *gunicorn(bind, threads), "benchmarks.peers.blocking_app:application"]
    with process(command, folder / "django.log", environment):
        yield


def gunicorn(bind: str, threads: int = THREADS) -> list[str]:
    """Its name and options, with room for thousands of clients that wait."""
    numbers = {"workers": WORKERS, "threads": threads, "backlog": BACKLOG, "worker-connections": 10_000}
    waits = {"timeout": TIMEOUT_SECONDS, "keep-alive": TIMEOUT_SECONDS}
    options = [f"--{name}={value}" for name, value in {**numbers, **waits}.items()]
    return ["gunicorn", "--worker-class=gthread", f"--bind={bind}", "--no-control-socket", *options]
