"""`manage.py prune`: removes old rows of all kinds, and mirrored files that were not requested for a while."""

from argparse import ArgumentTypeError
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.core.management.base import CommandParser
from tqdm import tqdm  # type: ignore[import-untyped]

from resources import old_rows
from resources.mirror import conf
from resources.mirror.conf import RetentionLimits
from resources.mirror.storage import retention as storage_retention

from ..cli import SiteCommand, fail_clearly


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e15:
        raise ArgumentTypeError("must not be negative")
    return value


class Command(SiteCommand):
    help = (
        "Removes rows that are no longer needed, as the site does each day, and mirrored files beyond MIRROR_MAX_BYTES "
        "and MIRROR_KEEP_DAYS, the least recently requested first. With --bytes or --days, only files. Pinned files, "
        "and rows with an admin's decision, stay. It can be stopped at any time: the same again goes on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bytes", type=_not_negative, help="limit for all files together (MIRROR_MAX_BYTES)")
        parser.add_argument("--days", type=_not_negative, help="days since the last request (MIRROR_KEEP_DAYS)")
        parser.add_argument("--dry-run", action="store_true", help="print what would be removed, and remove nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        given, now = _given_limits(options["bytes"], options["days"]), datetime.now(UTC)
        with fail_clearly("What was removed until then is gone; the same again goes on."):
            if given is None:
                self._prune_rows(now, dry_run=options["dry_run"])
            if limits := given or conf.retention_limits():
                self._prune_files(limits, now, dry_run=options["dry_run"])

    def _prune_rows(self, now: datetime, *, dry_run: bool) -> None:
        """Prints a line for each kind with old rows once it is done, then their number."""
        total = 0
        with tqdm(unit=" rows", disable=None, leave=False) as bar:
            for name, number in _count_rows(now) if dry_run else _remove_rows(now, bar):
                total += number
                with bar.external_write_mode():
                    self.stdout.write(f"  {name:32}{number:>12,}")
        self.stdout.write(f"{total:,} old rows {_verb(dry_run=dry_run)}.")

    def _prune_files(self, limits: RetentionLimits, now: datetime, *, dry_run: bool) -> None:
        number, size = self._list(limits, now) if dry_run else storage_retention.prune_blobs(limits, now)
        self.stdout.write(f"{number:,} files of {size:,} bytes {_verb(dry_run=dry_run)}.")

    def _list(self, retention: RetentionLimits, now: datetime) -> tuple[int, int]:
        number = size = 0
        for one in storage_retention.prune_candidates(retention, now):
            number, size = number + 1, size + one.blob.size
            asked = f"{one.blob.accessed_at:%Y-%m-%d}"
            self.stdout.write(f"{one.blob.digest} {one.blob.size:>13,} bytes  asked for {asked}  {one.why}")
        return number, size


def _given_limits(most_bytes: float | None, days: float | None) -> RetentionLimits | None:
    if most_bytes is None and days is None:
        return None
    return RetentionLimits(
        None if most_bytes is None else int(most_bytes), None if days is None else timedelta(days=min(days, 100_000))
    )


def _count_rows(now: datetime) -> Iterator[tuple[str, int]]:
    """Yields the name and the number of the old rows of each kind that has any."""
    for kind in old_rows.KINDS:
        if number := kind.find_old(now).count():
            yield kind.name, number


def _remove_rows(now: datetime, bar: tqdm) -> Iterator[tuple[str, int]]:
    """Removes the old rows, and moves the bar; yields the name and the number of each kind that had any."""
    for kind, portions in groupby(old_rows.prune_rows(now), key=itemgetter(0)):
        number = 0
        for _, removed in portions:
            number += removed
            bar.update(removed)
        yield kind.name, number


def _verb(*, dry_run: bool) -> str:
    return "would go" if dry_run else "are gone"
