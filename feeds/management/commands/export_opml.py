"""`manage.py export_opml`: writes the feeds, with their categories, as a list that other programs read."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet
from tqdm import tqdm  # type: ignore[import-untyped]

from feeds.keeping import categories, lists
from feeds.models import ALL, Feed
from feeds.opml import writing
from resources.management.failing import failing_clearly

TITLE = "Feeds"


class Command(BaseCommand):
    help = "Writes the feeds, with their categories, as OPML 2.0: what `import_opml` reads."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="where to; else the standard output")
        parser.add_argument("--category", metavar="SLUG", help="those of this category, and of the ones below it")
        parser.add_argument("--followed-by", metavar="USER", help="those that this user follows")
        parser.add_argument("--with-passwords", action="store_true", help="with users and passwords, readable")

    def handle(self, *args: Any, **options: Any) -> None:
        with failing_clearly():
            chosen = _chosen(options["category"], options["followed_by"])
            rows = lists.subscriptions(chosen, with_passwords=options["with_passwords"])
            number = chosen.count()
            bar = tqdm(rows, desc="feeds", total=number, unit=" feeds", disable=None, leave=False)
            written = writing.write(bar, TITLE, datetime.now(UTC), with_passwords=options["with_passwords"])
            if options["file"] == "-":
                self.stdout.write(written.decode(), ending="")
                return
            _write(Path(options["file"]), written)
        self.stdout.write(f"Feeds written to {options['file']}: {number:,}.")


def _chosen(category: str | None, user: str | None) -> QuerySet[Feed]:
    chosen = Feed.objects.order_by("slug")
    if category is not None and category != ALL:
        ids = categories.with_those_below(category)
        if not ids:
            raise CommandError(f"There is no category “{category}”.")
        members = Feed.categories.through.objects.filter(category__in=ids)
        chosen = chosen.filter(pk__in=members.values("feed"))
    if user is not None:
        chosen = chosen.filter(follows__user__username=user)
        if not chosen.exists():
            raise CommandError(f"There is no user “{user}” who follows any of them.")
    return chosen


def _write(path: Path, data: bytes) -> None:
    """The whole file or none: whoever reads it meanwhile has the old one. It may hold secrets: for its owner alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
