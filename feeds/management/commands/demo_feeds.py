"""`manage.py demo_feeds`: adds the demo's feeds; with --once only if FILE does not name them."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from feeds.demo import load
from resources.management.cli import SiteCommand, fail_clearly


class Command(SiteCommand):
    help = "Adds some well-known feeds, or sample feeds on a machine without internet access. Adds nothing twice."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--once", type=Path, metavar="FILE", help="skip feeds named in FILE, and record added feeds there"
        )
        parser.add_argument(
            "--samples", default=settings.SAMPLES, metavar="HOST:PORT", help="the address that serves the sample feeds"
        )

    def handle(self, *, once: Path | None = None, samples: str = "", **_options: Any) -> None:
        now = datetime.now(UTC)
        with fail_clearly("The demo's feeds were not all added."):
            if once:
                load.load_demo_feeds_once(self._report, once, now, samples)
            else:
                load.load_demo_feeds(self._report, now, samples)

    def _report(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
