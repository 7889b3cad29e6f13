"""`manage.py load_speeds SLUG F.csv`: replaces the speeds of a layer."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from resources.tiles import apart, compiling, conf, storing
from resources.tiles.errors import LayerError, SpeedsError


class Command(BaseCommand):
    help = (
        "Replaces the speeds of a layer by those of a CSV file (segment_id,speed_kmh,free_flow_kmh[,measured_at]). "
        "Segments without a row have no data then. Tiles become stale, not absent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the layer")
        parser.add_argument("file", type=Path, help="the CSV file")

    def handle(self, *args: Any, **options: Any) -> None:
        path, limits = options["file"], conf.limits()
        try:
            layer = storing.find_layer(options["slug"])
            if layer.kind != layer.Kind.LINES:
                raise SpeedsError(f"“{layer.slug}” is a layer of {layer.kind}; only lines have speeds.")
            apart.check_file(path, limits, SpeedsError)
            geometry = storing.read_file(layer.geometry_name)
            compiled = compiling.compile_speeds(geometry, path.read_bytes(), limits)
            storing.replace_speeds(layer, compiled)
        except (LayerError, OSError) as error:
            raise CommandError(f"{path}: {error} The speeds were left as they are.") from error
        if compiled.report:
            self.stdout.write(f"{layer.slug}: {describe(compiled.report)}")


def describe(report: Any) -> str:
    """One line about what became of the rows."""
    if not report.unknown:
        return f"{report.rows:,} rows."
    examples = ", ".join(report.unknown_examples) + ("…" if report.unknown > len(report.unknown_examples) else "")
    return f"{report.rows:,} rows, {report.unknown:,} of them for unknown segments ({examples})."
