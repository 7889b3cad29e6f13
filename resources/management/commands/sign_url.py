"""`manage.py sign_url URL…`: the addresses under which this site mirrors these URLs."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from resources.mirroring.errors import UrlError
from resources.mirroring.serving import addresses


class Command(BaseCommand):
    help = "Prints a signed address for each URL. Whoever asks for it has this site fetch, keep and serve the file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("urls", nargs="+", metavar="URL")

    def handle(self, *args: Any, **options: Any) -> None:
        refused = 0
        for url in options["urls"]:
            try:
                self.stdout.write(f"{settings.PUBLIC_URL}{addresses.sign_url(url)}")
            except UrlError as error:
                refused += 1
                self.stderr.write(f"{url}: {error}")
        if refused:
            raise CommandError(f"{refused} of {len(options['urls'])} URLs cannot be mirrored.")
