"""`manage.py demo`: loads the demo's layers; with --live it varies their speeds instead.

What an admin deleted stays deleted: --live loads nothing, and waits while there is no such layer.
"""

import signal
from argparse import ArgumentParser
from functools import partial
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
    help = "Loads a world map and the London Underground with generated speeds. Loads nothing twice."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--live", action="store_true", help="vary the speeds until stopped; loads nothing")
        parser.add_argument(
            "--every",
            type=float,
            default=DEFAULT_SECONDS,
            metavar="SECONDS",
            help="time between new speeds with --live",
        )

    def handle(self, *, live: bool, every: float, **_options: Any) -> None:
        if not every >= SHORTEST_SECONDS:
            raise CommandError(f"--every is at least {SHORTEST_SECONDS:g} second.")
        if live:
            self._vary(every)
        else:
            self._load()

    def _load(self) -> None:
        try:
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
