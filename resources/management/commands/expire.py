"""`manage.py expire SLUG`: makes all tiles of a layer stale."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from resources.management.failing import failing_clearly
from resources.tiles import storing


class Command(BaseCommand):
    help = "Makes all tiles of a layer stale: each is served once more while it is painted anew."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the layer")

    def handle(self, *args: Any, **options: Any) -> None:
        with failing_clearly():
            layer = storing.find_layer(options["slug"])
            layer.save(update_fields=[])
        self.stdout.write(f"{layer.slug}: version {layer.version}.")
