"""`manage.py sign_url URL…`: prints the addresses under which this site mirrors these URLs."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from resources.mirror import links
from resources.mirror.errors import UrlError

from ..cli import SiteCommand


class Command(SiteCommand):
    help = "Prints a signed address for each URL. A request for it makes this site fetch, store and serve the file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("urls", nargs="+", metavar="URL")

    def handle(self, *args: Any, **options: Any) -> None:
        refused = 0
        for url in options["urls"]:
            try:
                self.stdout.write(f"{settings.PUBLIC_URL}{links.sign_url(url)}")
            except UrlError as error:
                refused += 1
                self.stderr.write(f"{url}: {error}")
        if refused:
            raise CommandError(f"{refused} of {len(options['urls'])} URLs cannot be mirrored.")
