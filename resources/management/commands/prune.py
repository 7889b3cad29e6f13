"""`manage.py prune`: removes mirrored files that were not requested for a while."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from resources.mirror import conf
from resources.mirror.conf import RetentionLimits
from resources.mirror.storage import retention as storage_retention


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e15:
        raise ArgumentTypeError("must not be negative")
    return value


class Command(BaseCommand):
    help = "Removes mirrored files, the least recently requested first. Pinned files stay."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bytes", type=_not_negative, help="limit for all files together (MIRROR_MAX_BYTES)")
        parser.add_argument("--days", type=_not_negative, help="days since the last request (MIRROR_KEEP_DAYS)")
        parser.add_argument("--dry-run", action="store_true", help="print the files to remove, and remove none")

    def handle(self, *args: Any, **options: Any) -> None:
        retention = _retention(options["bytes"], options["days"])
        if not retention:
            raise CommandError("Give --bytes or --days, or set MIRROR_MAX_BYTES or MIRROR_KEEP_DAYS.")
        now = datetime.now(UTC)
        try:
            number, size = (
                self._list(retention, now) if options["dry_run"] else storage_retention.prune_blobs(retention, now)
            )
        except DatabaseError as error:
            raise CommandError(f"The database failed: {error}") from error
        verb = "would go" if options["dry_run"] else "are gone"
        self.stdout.write(f"{number:,} files of {size:,} bytes {verb}.")

    def _list(self, retention: RetentionLimits, now: datetime) -> tuple[int, int]:
        number = size = 0
        for one in storage_retention.prune_candidates(retention, now):
            number, size = number + 1, size + one.blob.size
            asked = f"{one.blob.accessed_at:%Y-%m-%d}"
            self.stdout.write(f"{one.blob.digest} {one.blob.size:>13,} bytes  asked for {asked}  {one.why}")
        return number, size


def _retention(most_bytes: float | None, days: float | None) -> RetentionLimits:
    """Returns the given limits; without either, those of the settings."""
    if most_bytes is None and days is None:
        return conf.retention_limits()
    return RetentionLimits(
        None if most_bytes is None else int(most_bytes), None if days is None else timedelta(days=min(days, 100_000))
    )
