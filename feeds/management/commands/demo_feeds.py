"""`manage.py demo_feeds`: adds the demo's feeds; with --once only where FILE does not name them."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from feeds.demo import loading
from resources.management.failing import failing_clearly


class Command(BaseCommand):
    help = "Adds some well-known feeds, and samples where this machine has no way out. Adds nothing twice."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once", type=Path, metavar="FILE", help="only where FILE does not name them, and write that down there"
        )
        parser.add_argument(
            "--samples", default=settings.SAMPLES, metavar="HOST:PORT", help="where the sample feeds are served"
        )

    def handle(self, *, once: Path | None = None, samples: str = "", **_options: Any) -> None:
        now = datetime.now(UTC)
        with failing_clearly("The demo's feeds were not all added."):
            if once:
                loading.load_once(self._report, once, now, samples)
            else:
                loading.load(self._report, now, samples)

    def _report(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
