"""`manage.py ingest FILE|-`: reports the URLs of a file, a line each, and waits until all of them have ended."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm  # type: ignore[import-untyped]

from resources.mirror.models import DedupeStep
from resources.mirror.reports import bulk
from resources.mirror.reports.batches import SentList
from resources.mirror.reports.bulk import BulkIngest
from resources.mirror.reports.report import ReportError

from ..cli import SiteCommand, fail_clearly

POLL_SECONDS = 1.0
PRINT_INTERVAL_SECONDS = 10.0
QUIET_SECONDS = 60.0
MAX_SHOWN_FAILURES = 10
SENDER = "ingest"


class Command(SiteCommand):
    help = (
        "Reports the URLs of a file, one a line; blank lines and lines that begin with # are skipped. Those that are "
        "not known are fetched and stored. It can be stopped at any time: the same again goes on where it was."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE|-", help="the file; - for standard input")
        parser.add_argument("--referer", default="", help="sent as Referer to the origins of the URLs")
        parser.add_argument("--no-wait", action="store_true", help="return without waiting for the fetches")

    def handle(self, *args: Any, **options: Any) -> None:
        ingest = BulkIngest()
        with fail_clearly(self._continuation_hint(options["file"])):
            try:
                with _open_input(options["file"]) as file:
                    self._report(ingest, file, options["referer"])
                if not options["no_wait"]:
                    self._wait(ingest)
            except ReportError as error:
                raise CommandError(str(error)) from error
            ingest.settle_counts()
        self._say_all(ingest)
        if ingest.failures:
            raise CommandError(f"{ingest.failures:,} of them were not stored.", returncode=1)

    def _continuation_hint(self, file: str) -> str:
        same = "the same lines" if file == "-" else file
        return (
            "What was reported so far is fetched all the same; nothing of it is asked for twice. "
            f"To go on and see the end, ingest {same} again."
        )

    def _report(self, ingest: BulkIngest, file: BinaryIO, referer: str) -> None:
        """Reports the lines in batches of a few thousand, so that memory does not grow with the file."""
        with self._bar("reported") as bar:
            for chunk in bulk.read_url_lists(file):
                ingest.report(SentList(chunk, SENDER, referer), datetime.now(UTC))
                self._show(bar, ingest.reported, f"{ingest.reported:,} reported")

    def _wait(self, ingest: BulkIngest) -> None:
        moved = time.monotonic()
        with self._bar("ended", ingest.reported) as bar:
            while True:
                before = ingest.ended
                ingest.look(datetime.now(UTC))
                self._show(bar, ingest.ended, f"{ingest.ended:,} of {ingest.reported:,} settled", rarely=True)
                if ingest.is_finished:
                    return
                if ingest.ended != before:
                    moved = time.monotonic()
                elif time.monotonic() - moved > QUIET_SECONDS:
                    moved = time.monotonic()
                    self.stderr.write("No URL was settled for a minute. Check that `fetch`, `work` and `beat` run.")
                time.sleep(POLL_SECONDS)

    @contextmanager
    def _bar(self, what: str, total: int | None = None) -> Iterator[tqdm]:
        self._said_at, self._said = time.monotonic(), ""
        with tqdm(desc=what, total=total, unit=" URLs", disable=None, leave=False) as bar:
            yield bar

    def _show(self, bar: tqdm, done: int, text: str, *, rarely: bool = False) -> None:
        """Moves the bar; without a terminal, prints a line now and then."""
        if not bar.disable:
            bar.update(done - bar.n)
        elif text != self._said and not (rarely and time.monotonic() - self._said_at < PRINT_INTERVAL_SECONDS):
            self._said_at, self._said = time.monotonic(), text
            self.stdout.write(text)

    def _say_all(self, ingest: BulkIngest) -> None:
        counts = ingest.counts
        waiting = f", {ingest.open:,} not settled yet" if ingest.open else ""
        self.stdout.write(
            f"{ingest.reported:,} URLs: {ingest.stored:,} stored, {counts[DedupeStep.FAILED]:,} failed, "
            f"{counts[DedupeStep.REFUSED]:,} refused{waiting}."
        )
        for step in DedupeStep:
            if counts[step]:
                self.stdout.write(f"  {step.label:32}{counts[step]:>12,}")
        for item in ingest.examples(MAX_SHOWN_FAILURES):
            self.stderr.write(f"{item.url}: {item.detail}")
        if ingest.failures > MAX_SHOWN_FAILURES:
            self.stderr.write(f"… and {ingest.failures - MAX_SHOWN_FAILURES:,} more: see the batches in the admin.")


@contextmanager
def _open_input(name: str) -> Iterator[BinaryIO]:
    if name == "-":
        yield sys.stdin.buffer
        return
    with Path(name).open("rb") as file:
        yield file
