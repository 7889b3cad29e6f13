"""`manage.py load_speeds SLUG F.csv`: replaces the speeds of a layer, or with --update some of them."""

from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from resources.management.failing import about, failing_clearly
from resources.tiles import conf
from resources.tiles.errors import SpeedsError
from resources.tiles.keeping import apart, files, storing, updating
from resources.tiles.reading import compiling, patching


class Command(BaseCommand):
    help = (
        "Replaces the speeds of a layer by those of a CSV file (segment_id,speed_kmh,free_flow_kmh[,measured_at]). "
        "Segments without a row have no data then. Tiles become stale, not absent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the layer")
        parser.add_argument("file", type=Path, help="the CSV file")
        parser.add_argument(
            "--update", action="store_true", help="change the segments in the file, and leave all others as they are"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path, limits = options["file"], conf.limits()
        with failing_clearly("The speeds were left as they are."):
            if options["update"]:
                self._update(options["slug"], path)
                return
            layer = storing.find_layer(options["slug"])
            if layer.kind != layer.Kind.LINES:
                raise SpeedsError(f"“{layer.slug}” is a layer of {layer.kind}; only lines have speeds.")
            geometry = files.read(layer.geometry_name)
            with about(path):
                apart.check_file(path, limits, SpeedsError)
                compiled = compiling.compile_speeds(geometry, path.read_bytes(), limits)
            storing.replace_speeds(layer, compiled, geometry)
        self.stdout.write(f"{layer.slug}: {storing.describe_speeds(compiled)}")

    def _update(self, slug: str, path: Path) -> None:
        """Puts the speeds of a file over those in service."""
        with about(path):
            apart.check_file(path, conf.limits(), SpeedsError)
        update = updating.update_speeds(slug, partial(_read, path))
        self.stdout.write(f"{slug}: {updating.describe(update)}")


def _read(path: Path, geometry: bytes) -> patching.Patch:
    with about(path):
        return patching.read_patch(geometry, path.read_bytes(), "csv", conf.limits())
