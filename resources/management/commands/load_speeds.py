"""`manage.py load_speeds SLUG F.csv`: replaces the speeds of a layer, or with --update some of them."""

from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from resources.tiles import compile_process, conf, layer_files, publication, speed_updates
from resources.tiles.data import compiler
from resources.tiles.errors import SpeedsError

from ..cli import SiteCommand, fail_clearly, prefix_errors


class Command(SiteCommand):
    help = (
        "Replaces the speeds of a layer by those of a CSV file (segment_id,speed_kmh,free_flow_kmh[,measured_at]). "
        "Segments without a row have no data then. Tiles become stale, not absent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the layer")
        parser.add_argument("file", type=Path, help="the CSV file")
        parser.add_argument("--update", action="store_true", help="change only the segments in the file")

    def handle(self, *args: Any, **options: Any) -> None:
        path, limits = options["file"], conf.layer_limits()
        with fail_clearly("The speeds were left as they are."):
            if options["update"]:
                self._update(options["slug"], path)
                return
            layer = publication.find_layer(options["slug"])
            if layer.kind != layer.Kind.LINES:
                raise SpeedsError(f"“{layer.slug}” is a layer of {layer.kind}; only lines have speeds.")
            geometry = layer_files.read_file(layer.geometry_name)
            with prefix_errors(path):
                compile_process.check_file(path, limits, SpeedsError)
                compiled = compiler.compile_speeds(geometry, path.read_bytes(), limits)
            publication.replace_speeds(layer, compiled, geometry)
        self.stdout.write(f"{layer.slug}: {publication.describe_speeds(compiled)}")

    def _update(self, slug: str, path: Path) -> None:
        """Lays the speeds of a file over those in service."""
        with prefix_errors(path):
            compile_process.check_file(path, conf.layer_limits(), SpeedsError)
        update = speed_updates.update_speeds(slug, partial(_read_patch, path))
        self.stdout.write(f"{slug}: {speed_updates.describe_update(update)}")


def _read_patch(path: Path, geometry: bytes) -> compiler.SpeedsPatch:
    with prefix_errors(path):
        return compiler.read_patch(geometry, path.read_bytes(), "csv", conf.layer_limits())
