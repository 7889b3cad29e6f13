"""`manage.py load_layer SLUG`: creates a layer, or replaces its data."""

import json
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm  # type: ignore[import-untyped]

from resources.tiles import apart, compiling, conf, geojson, storing
from resources.tiles.errors import LayerError, SpeedsError

from .load_speeds import describe

FIELDS = {
    "title": "title",
    "attribution": "attribution",
    "note": "note",
    "min_zoom": "min_zoom",
    "max_zoom": "max_zoom",
    "fresh": "fresh_seconds",
    "stale": "stale_seconds",
    "client": "client_seconds",
    "order": "order",
    "base": "base",
    "style": "style",
}


class Command(BaseCommand):
    help = "Creates a layer, or replaces its data and the settings named here. On any error the old data stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="its place in the address: /tiles/SLUG/…")
        data = parser.add_mutually_exclusive_group(required=True)
        data.add_argument("--lines", type=Path, metavar="F.geojson", help="lines, coloured by speed")
        data.add_argument("--areas", type=Path, metavar="F.geojson", help="areas, filled")
        parser.add_argument("--speeds", type=Path, metavar="F.csv", help="the speeds of the lines")
        parser.add_argument("--title")
        parser.add_argument("--attribution")
        parser.add_argument("--note")
        parser.add_argument("--min-zoom", type=int)
        parser.add_argument("--max-zoom", type=int)
        parser.add_argument("--fresh", type=float, metavar="SECONDS", help="how long tiles are fresh")
        parser.add_argument("--stale", type=float, metavar="SECONDS", help="how long they are served after that")
        parser.add_argument("--client", type=float, metavar="SECONDS", help="how long browsers keep them")
        parser.add_argument("--order", type=int, help="higher numbers are drawn on top")
        parser.add_argument("--base", action="store_true", default=None, help="part of the base map")
        parser.add_argument("--style", metavar="JSON", help="widths, colours, thresholds")

    def handle(self, *args: Any, **options: Any) -> None:
        kind: geojson.Kind = "lines" if options["lines"] else "areas"
        try:
            compiled = self._compile(kind, options["lines"] or options["areas"], options["speeds"])
            layer = storing.store_layer(options["slug"], compiled, _fields(options))
        except ValidationError as error:
            raise CommandError(f"{'; '.join(_sentences(error))} Nothing was changed.") from error
        except (LayerError, OSError) as error:
            raise CommandError(f"{error} Nothing was changed.") from error
        self.stdout.write(
            f"{layer.slug}: {layer.segments:,} {kind}, {layer.positions:,} positions, "
            f"{layer.speeds_known:,} with speeds; version {layer.version}."
        )
        if compiled.speeds.report:
            self.stdout.write(f"{layer.slug}: {describe(compiled.speeds.report)}")

    def _compile(self, kind: geojson.Kind, path: Path, speeds: Path | None) -> compiling.CompiledLayer:
        limits = conf.limits()
        apart.check_file(path, limits)
        if speeds:
            apart.check_file(speeds, limits, SpeedsError)
        self.stdout.write(f"Reading {path} ({path.stat().st_size / 1e6:,.1f} MB) …")
        with tqdm(unit=" features", disable=None, leave=False) as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            data, csv = path.read_bytes(), speeds.read_bytes() if speeds else None
            return compiling.compile_layer(kind, data, csv, limits, show)


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of the layer that were named on the command line."""
    fields = {field: options[name] for name, field in FIELDS.items() if options[name] is not None}
    if "style" in fields:
        try:
            fields["style"] = json.loads(fields["style"])
        except ValueError as error:
            raise LayerError(f"--style is not JSON: {error}.") from error
    return fields


def _sentences(error: ValidationError) -> list[str]:
    return [f"{name}: {' '.join(messages)}" for name, messages in error.message_dict.items()]
