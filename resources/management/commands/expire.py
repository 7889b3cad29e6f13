"""`manage.py expire SLUG`: makes the tiles of a layer stale, all or those of a part."""

from typing import Any

from django.core.management.base import CommandParser

from resources.tiles import work

from .. import cli
from ..cli import SiteCommand, fail_clearly


class Command(SiteCommand):
    help = "Makes tiles of a layer stale: each is served once more while it is painted anew."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the layer")
        parser.add_argument("--bbox", metavar="W,S,E,N", help="only tiles of this box, in degrees")
        parser.add_argument("--zoom", metavar="Z or Z1-Z2", help="only tiles of these zooms")

    def handle(self, *args: Any, **options: Any) -> None:
        with fail_clearly():
            layer = work.expire_layer(options["slug"], cli.parse_part(options["bbox"], options["zoom"]))
        self.stdout.write(f"{layer.slug}: version {layer.version}.")
