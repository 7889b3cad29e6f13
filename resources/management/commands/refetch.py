"""`manage.py refetch --machine NAME`: has the files of a lost machine fetched again."""

from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError

from resources.mirror.ingest import wanted_urls

from ..cli import SiteCommand


class Command(SiteCommand):
    help = "Fetches again all mirrored files that only this machine holds. For a machine that is lost."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--machine", required=True, help="its name (MACHINE), as the admin shows it for a file")

    def handle(self, *args: Any, **options: Any) -> None:
        machine = options["machine"]
        try:
            files, urls = wanted_urls.refetch_held_by(machine, datetime.now(UTC))
        except DatabaseError as error:
            raise CommandError(f"The database failed: {error}") from error
        if not files:
            raise CommandError(f"There is no file that only {machine} has.")
        self.stdout.write(f"{files:,} files: {urls:,} URLs are fetched again.")
