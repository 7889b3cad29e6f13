"""`manage.py prune`: removes mirrored files that nobody has asked for in a while."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from resources.mirroring import conf
from resources.mirroring.conf import Retention
from resources.mirroring.storing import pruning


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e15:
        raise ArgumentTypeError("must not be negative")
    return value


class Command(BaseCommand):
    help = "Removes mirrored files, those first that nobody has asked for in the longest time. Pinned ones stay."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bytes", type=_not_negative, help="of all files together (MIRROR_MAX_BYTES)")
        parser.add_argument("--days", type=_not_negative, help="since somebody asked (MIRROR_KEEP_DAYS)")
        parser.add_argument("--dry-run", action="store_true", help="print what would go, and remove nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        retention = _retention(options["bytes"], options["days"])
        if not retention:
            raise CommandError("Say what may stay: --bytes or --days, or set MIRROR_MAX_BYTES or MIRROR_KEEP_DAYS.")
        now = datetime.now(UTC)
        try:
            number, size = self._list(retention, now) if options["dry_run"] else pruning.prune(retention, now)
        except DatabaseError as error:
            raise CommandError(f"The database failed: {error}") from error
        told = "would go" if options["dry_run"] else "are gone"
        self.stdout.write(f"{number:,} files of {size:,} bytes {told}.")

    def _list(self, retention: Retention, now: datetime) -> tuple[int, int]:
        number = size = 0
        for one in pruning.due(retention, now):
            number, size = number + 1, size + one.blob.size
            asked = f"{one.blob.accessed_at:%Y-%m-%d}"
            self.stdout.write(f"{one.blob.digest} {one.blob.size:>13,} bytes  asked for {asked}  {one.why}")
        return number, size


def _retention(most_bytes: float | None, days: float | None) -> Retention:
    """As given; without either as the settings say."""
    if most_bytes is None and days is None:
        return conf.retention()
    return Retention(
        None if most_bytes is None else int(most_bytes), None if days is None else timedelta(days=min(days, 100_000))
    )
