"""`manage.py demo`: loads the demo's layers that are missing; with --once only those that FILE does not name."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import Error as DatabaseError

from resources.demo import load
from resources.tiles.errors import LayerError

from ..cli import SiteCommand


class Command(SiteCommand):
    help = "Loads a world map, the London Underground with generated speeds, and earthquakes. Loads nothing twice."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once", type=Path, metavar="FILE", help="skip layers named in FILE, and record loaded layers there"
        )

    def handle(self, *, once: Path | None = None, **_options: Any) -> None:
        try:
            if once:
                load.load_demo_once(self._report, once)
            else:
                load.load_demo(self._report)
        except (LayerError, ValidationError, DatabaseError, OSError) as error:
            raise CommandError(f"The demo could not be loaded: {error}") from error

    def _report(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
