"""`manage.py expire SLUG`: makes the tiles of a layer stale, all or those of a part."""

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from resources.management.failing import failing_clearly
from resources.tiles.errors import LayerError
from resources.tiles.expirations import Part
from resources.tiles.keeping import expiring

_ZOOMS = re.compile(r"([0-9]{1,2})(?:-([0-9]{1,2}))?")


class Command(BaseCommand):
    help = "Makes tiles of a layer stale: each is served once more while it is painted anew."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the layer")
        parser.add_argument("--bbox", metavar="W,S,E,N", help="only tiles that show something of this box, in degrees")
        parser.add_argument("--zoom", metavar="Z or Z1-Z2", help="only tiles of these zooms")

    def handle(self, *args: Any, **options: Any) -> None:
        with failing_clearly():
            layer = expiring.expire(options["slug"], _part(options["bbox"], options["zoom"]))
        self.stdout.write(f"{layer.slug}: version {layer.version}.")


def _part(bbox: str | None, zoom: str | None) -> Part | None:
    """The part that was named, None for all of the layer. Raises LayerError."""
    return Part.of(None if bbox is None else _numbers(bbox), *_zooms(zoom))


def _numbers(bbox: str) -> list[float]:
    try:
        return [float(number) for number in bbox.split(",")]
    except ValueError as error:
        raise LayerError(f"--bbox is {bbox[:60]!r}, not four numbers: west,south,east,north.") from error


def _zooms(zoom: str | None) -> tuple[int | None, int | None]:
    if zoom is None:
        return None, None
    found = _ZOOMS.fullmatch(zoom)
    if found is None:
        raise LayerError(f"--zoom is {zoom[:60]!r}, not a zoom or two with a hyphen between them, as 10-14.")
    return int(found[1]), int(found[2] or found[1])
