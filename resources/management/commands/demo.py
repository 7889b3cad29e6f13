"""`manage.py demo`: loads the demo's layers; with --live it varies their speeds instead.

What an admin deleted stays deleted: --live loads nothing, and waits while there is no such layer;
with --once a file remembers what was loaded. Without either, what is missing is loaded again.
"""

import signal
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError

from resources.demo import living, loading
from resources.tiles.errors import LayerError

DEFAULT_SECONDS = 15.0
SHORTEST_SECONDS = 1.0


class Command(BaseCommand):
    help = "Loads a world map, the London Underground with generated speeds, and earthquakes. Loads nothing twice."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--live", action="store_true", help="vary the speeds until stopped; loads nothing")
        parser.add_argument(
            "--once", type=Path, metavar="FILE", help="load what FILE does not name, and write down its name there"
        )
        parser.add_argument(
            "--every",
            type=float,
            default=DEFAULT_SECONDS,
            metavar="SECONDS",
            help="time between new speeds with --live",
        )

    def handle(self, *, live: bool, every: float, once: Path | None = None, **_options: Any) -> None:
        if not every >= SHORTEST_SECONDS:
            raise CommandError(f"--every is at least {SHORTEST_SECONDS:g} second.")
        if live:
            self._vary(every)
        else:
            self._load(once)

    def _load(self, once: Path | None) -> None:
        try:
            if once:
                loading.load_demo_once(self._report, once)
            else:
                loading.load_demo(self._report)
        except (LayerError, ValidationError, DatabaseError, OSError) as error:
            raise CommandError(f"The demo could not be loaded: {error}") from error

    def _vary(self, every_seconds: float) -> None:
        stopped = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        self._report(f"Varying the speeds every {every_seconds:g} seconds.")
        living.repeat(partial(loading.store_speeds, loading.read_segments()), stopped, every_seconds)
        self._report("Stopped.")

    def _report(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
