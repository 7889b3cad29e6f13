"""`manage.py import_opml FILE|-`: adds the feeds of a list, with its categories."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm  # type: ignore[import-untyped]

from feeds.errors import FeedError
from feeds.keeping import lists
from feeds.keeping.lists import Imported
from feeds.opml import reading
from feeds.opml.outlines import FeedList, Limits
from resources.management.failing import failing_clearly

MOST_SHOWN = 20
SAID_EVERY = 5
"""Parts, where there is no terminal to draw a bar on."""


class Command(BaseCommand):
    help = (
        "Adds the feeds of a list (OPML), with its categories. Those that are there stay as they are, but come into "
        "the list's categories too. It can be stopped at any time: the same again goes on where it was."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE|-", help="the list; - for the standard input")
        parser.add_argument("--follow", metavar="USER", help="this user follows all of them from now on")
        parser.add_argument("--dry-run", action="store_true", help="only say what would be done")

    def handle(self, *args: Any, **options: Any) -> None:
        with failing_clearly(), _saying():
            found = _read(options["file"])
            follower = _user_id(options["follow"])
        with failing_clearly("What was added stays; the same again goes on."), _saying():
            if options["dry_run"]:
                self._foresee(found, options["verbosity"])
            else:
                self._take_in(found, follower)
        self._say_left_out(found)

    def _foresee(self, found: FeedList, verbosity: int) -> None:
        new, known = lists.foresee(found)
        for each in new if verbosity > 1 else ():
            self.stdout.write(f"{each.address.url}  {each.title}".rstrip())
        self.stdout.write(f"Nothing was changed. Feeds that would be added: {len(new):,}, that are there: {known:,}.")
        self._say_repeated(found)

    def _take_in(self, found: FeedList, follower: int | None) -> None:
        done = Imported()
        total = len(found.subscriptions)
        with tqdm(desc="feeds", total=total, unit=" feeds", disable=None, leave=False) as bar:
            for number, part in enumerate(lists.take_in(found, follower, datetime.now(UTC)), 1):
                done += part
                bar.update(part.feeds)
                if bar.disable and number % SAID_EVERY == 0 and done.feeds < total:
                    self.stdout.write(f"{done.feeds:,} of {total:,} feeds")
        more = f" ({done.recategorised:,} in more categories than before)" if done.recategorised else ""
        self.stdout.write(f"Feeds added: {done.added:,}, there before: {done.known:,}{more}.")
        if follower is not None:
            self.stdout.write(f"Newly followed: {done.followed:,}.")
        self._say_repeated(found)

    def _say_repeated(self, found: FeedList) -> None:
        if found.duplicates:
            self.stdout.write(f"Outlines that repeat another one's feed: {found.duplicates:,}.")

    def _say_left_out(self, found: FeedList) -> None:
        if not found.left_out_in_all:
            return
        for each in found.left_out[:MOST_SHOWN]:
            self.stderr.write(f"line {each.line}: {each.text or 'without a name'}: {each.why}")
        more = f" (the first {MOST_SHOWN} are shown)" if found.left_out_in_all > MOST_SHOWN else ""
        raise CommandError(f"Outlines left out: {found.left_out_in_all:,}{more}.", returncode=1)


def _read(name: str) -> FeedList:
    most = Limits().max_bytes + 1  # one more than is read: parsing says that it is too long
    if name == "-":
        return reading.parse(sys.stdin.buffer.read(most))
    with Path(name).open("rb") as file:
        return reading.parse(file.read(most))


def _user_id(name: str | None) -> int | None:
    if name is None:
        return None
    users = get_user_model()
    user = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
    if user is None:
        raise CommandError(f"There is no user “{name}”. Nothing was changed.")
    return int(user.pk)


@contextmanager
def _saying() -> Iterator[None]:
    """Errors of feeds as one clear line."""
    try:
        yield
    except FeedError as error:
        raise CommandError(str(error)) from error
