"""`manage.py expire SLUG`: makes all tiles of a layer stale."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from resources.tiles import storing
from resources.tiles.errors import UnknownLayerError


class Command(BaseCommand):
    help = "Makes all tiles of a layer stale: each is served once more while it is painted anew."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the layer")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            layer = storing.find_layer(options["slug"])
        except UnknownLayerError as error:
            raise CommandError(str(error)) from error
        layer.save(update_fields=[])
        self.stdout.write(f"{layer.slug}: version {layer.version}.")
