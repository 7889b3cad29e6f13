"""`manage.py import_opml FILE|-`: adds the feeds of a list, with its categories."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm  # type: ignore[import-untyped]

from feeds import catalogue, opml
from feeds.catalogue import ImportResult
from feeds.errors import FeedError
from feeds.opml import FeedList, OpmlLimits
from resources.management.cli import SiteCommand, fail_clearly

MAX_SHOWN_OUTLINES = 20
REPORT_EVERY_PARTS = 5
"""The number of parts between two reports, if there is no terminal to draw a bar on."""


class Command(SiteCommand):
    help = (
        "Adds the feeds of an OPML list, with its categories. Existing feeds stay unchanged, but are added to "
        "the list's categories too. It can be stopped at any time; run it again to continue."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE|-", help="the list; - for standard input")
        parser.add_argument("--follow", metavar="USER", help="let this user follow all feeds of the list")
        parser.add_argument("--dry-run", action="store_true", help="print the changes, and make none")

    def handle(self, *args: Any, **options: Any) -> None:
        with fail_clearly(), _errors_as_lines():
            found = _read_list(options["file"])
            follower = _user_id(options["follow"])
        with fail_clearly("Feeds added before that stay. Run it again to continue."), _errors_as_lines():
            if options["dry_run"]:
                self._foresee(found, options["verbosity"])
            else:
                self._take_in(found, follower)
        self._say_left_out(found)

    def _foresee(self, found: FeedList, verbosity: int) -> None:
        new, known = catalogue.preview_import(found)
        for each in new if verbosity > 1 else ():
            self.stdout.write(f"{each.address.url}  {each.title}".rstrip())
        self.stdout.write(f"Nothing was changed. Feeds to add: {len(new):,}, already present: {known:,}.")
        self._say_repeated(found)

    def _take_in(self, found: FeedList, follower: int | None) -> None:
        done = ImportResult()
        total = len(found.subscriptions)
        with tqdm(desc="feeds", total=total, unit=" feeds", disable=None, leave=False) as bar:
            for number, part in enumerate(catalogue.import_list(found, follower, datetime.now(UTC)), 1):
                done += part
                bar.update(part.feeds)
                if bar.disable and number % REPORT_EVERY_PARTS == 0 and done.feeds < total:
                    self.stdout.write(f"{done.feeds:,} of {total:,} feeds")
        more = f" ({done.recategorised:,} with new categories)" if done.recategorised else ""
        self.stdout.write(f"Feeds added: {done.added:,}, already present: {done.known:,}{more}.")
        if follower is not None:
            self.stdout.write(f"Newly followed: {done.followed:,}.")
        self._say_repeated(found)

    def _say_repeated(self, found: FeedList) -> None:
        if found.duplicates:
            self.stdout.write(f"Duplicate outlines: {found.duplicates:,}.")

    def _say_left_out(self, found: FeedList) -> None:
        if not found.left_out_in_all:
            return
        for each in found.left_out[:MAX_SHOWN_OUTLINES]:
            self.stderr.write(f"line {each.line}: {each.text or 'Untitled'}: {each.why}")
        more = f" (the first {MAX_SHOWN_OUTLINES} are shown)" if found.left_out_in_all > MAX_SHOWN_OUTLINES else ""
        raise CommandError(f"Outlines skipped: {found.left_out_in_all:,}{more}.", returncode=1)


def _read_list(name: str) -> FeedList:
    most = OpmlLimits().max_bytes + 1  # one byte more than allowed: the parser reports that the list is too long
    if name == "-":
        return opml.parse_opml(sys.stdin.buffer.read(most))
    with Path(name).open("rb") as file:
        return opml.parse_opml(file.read(most))


def _user_id(name: str | None) -> int | None:
    if name is None:
        return None
    users = get_user_model()
    user = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
    if user is None:
        raise CommandError(f"There is no user “{name}”. Nothing was changed.")
    return int(user.pk)


@contextmanager
def _errors_as_lines() -> Iterator[None]:
    try:
        yield
    except FeedError as error:
        raise CommandError(str(error)) from error
