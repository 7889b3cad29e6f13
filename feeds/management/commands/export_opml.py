"""`manage.py export_opml`: writes the feeds, with their categories, as an OPML list for other programs."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db.models import QuerySet
from tqdm import tqdm  # type: ignore[import-untyped]

from feeds import catalogue, categories, opml
from feeds.models import ALL_SLUG, Category, Feed
from resources.management.cli import SiteCommand, fail_clearly

LIST_TITLE = "Feeds"


class Command(SiteCommand):
    help = "Writes the feeds, with their categories, as OPML 2.0, for `import_opml`."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the file; default: standard output")
        parser.add_argument("--category", metavar="SLUG", help="only feeds of this category and its subcategories")
        parser.add_argument("--followed-by", metavar="USER", help="only feeds that this user follows")
        parser.add_argument("--with-passwords", action="store_true", help="include users and passwords, unencrypted")

    def handle(self, *args: Any, **options: Any) -> None:
        with fail_clearly():
            chosen = _chosen_feeds(options["category"], options["followed_by"])
            rows = catalogue.list_subscriptions(chosen, with_passwords=options["with_passwords"])
            number = chosen.count()
            bar = tqdm(rows, desc="feeds", total=number, unit=" feeds", disable=None, leave=False)
            written = opml.write_opml(bar, LIST_TITLE, datetime.now(UTC), with_passwords=options["with_passwords"])
            if options["file"] == "-":
                self.stdout.write(written.decode(), ending="")
                return
            _write_file(Path(options["file"]), written)
        self.stdout.write(f"Feeds written to {options['file']}: {number:,}.")


def _chosen_feeds(category: str | None, user: str | None) -> QuerySet[Feed]:
    chosen = Feed.objects.order_by("slug")
    if category is not None and category != ALL_SLUG:
        if not Category.objects.filter(slug=category).exists():
            raise CommandError(f"There is no category “{category}”.")
        chosen = chosen.filter(categories.feeds_below(category))
    if user is not None:
        chosen = chosen.filter(follows__user__username=user)
        if not chosen.exists():
            raise CommandError(f"There is no user “{user}”, or the user follows none of them.")
    return chosen


def _write_file(path: Path, data: bytes) -> None:
    """Writes the whole file or none: readers meanwhile have the old one. It may hold secrets: for its owner alone."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
