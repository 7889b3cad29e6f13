"""`manage.py load_layer SLUG`: creates a layer, or replaces its data."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm  # type: ignore[import-untyped]

from resources.management.failing import about, failing_clearly
from resources.models import Layer
from resources.tiles import conf, grid
from resources.tiles.errors import LayerError, SpeedsError
from resources.tiles.keeping import apart, storing
from resources.tiles.reading import compiling, geojson
from resources.tiles.styling import style
from resources.upstream.storing import store_upstream
from resources.upstream.templates import parse

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
    "bounds": "bounds",
    "most_fresh": "most_fresh_seconds",
}


class Command(BaseCommand):
    help = "Creates a layer, or replaces its data and the settings named here. On any error the old data stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="its place in the address: /tiles/SLUG/…")
        data = parser.add_mutually_exclusive_group(required=True)
        data.add_argument("--lines", type=Path, metavar="F.geojson", help="lines, coloured by speed")
        data.add_argument("--areas", type=Path, metavar="F.geojson", help="areas, filled")
        data.add_argument("--points", type=Path, metavar="F.geojson", help="points, as clusters, heat or dots")
        data.add_argument(
            "--upstream",
            metavar="URL",
            help="tiles of another server: https://…/{z}/{x}/{y}.png, also {-y}, {q}, {s}, {r}, {format}",
        )
        parser.add_argument("--speeds", type=Path, metavar="F.csv", help="the speeds of the lines")
        parser.add_argument("--title")
        parser.add_argument("--attribution")
        parser.add_argument("--note")
        parser.add_argument("--min-zoom", type=int)
        parser.add_argument("--max-zoom", type=int)
        parser.add_argument("--fresh", type=float, metavar="SECONDS", help="how long tiles are fresh")
        parser.add_argument("--stale", type=float, metavar="SECONDS", help="how long they are served after that")
        parser.add_argument(
            "--most-fresh", type=float, metavar="SECONDS", help="of another server's tiles, however long it allows"
        )
        parser.add_argument("--client", type=float, metavar="SECONDS", help="how long browsers keep them")
        parser.add_argument("--bounds", metavar="W,S,E,N", help="in degrees; those of the data if nothing is said")
        parser.add_argument("--order", type=int, help="higher numbers are drawn on top")
        parser.add_argument("--base", action="store_true", default=None, help="part of the base map")
        parser.add_argument(
            "--style", metavar="JSON", help="widths, colours, thresholds; of points mode, radius, weight"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["upstream"] is not None:
            self._load_upstream(options)
            return
        if options["most_fresh"] is not None:
            raise CommandError("Only tiles of another server have --most-fresh.")
        kind: geojson.Kind = "lines" if options["lines"] else "areas" if options["areas"] else "points"
        with failing_clearly():
            fields = _fields(options)
            storing.check_fields(options["slug"], {**fields, "kind": kind})
            weight = _weight(options["slug"], fields) if kind == "points" else None
            compiled = self._compile(kind, options[kind], options["speeds"], weight)
            compiled = storing.keep_speeds(options["slug"], compiled)
            compiled = storing.size_blocks(options["slug"], compiled, fields)
            layer = storing.store_layer(options["slug"], compiled, fields)
        speeds = f", {layer.speeds_known:,} with speeds" if kind == "lines" else ""
        self.stdout.write(
            f"{layer.slug}: {layer.segments:,} {kind}, {layer.positions:,} positions{speeds}; version {layer.version}."
        )
        if said := storing.describe_speeds(compiled.speeds):
            self.stdout.write(f"{layer.slug}: {said}")

    def _load_upstream(self, options: dict[str, Any]) -> None:
        """Another server's tiles: there is nothing to read."""
        with failing_clearly():
            if options["speeds"]:
                raise LayerError("Only lines have --speeds.")
            layer = store_upstream(options["slug"], options["upstream"].strip(), _fields(options))
        self.stdout.write(f"{layer.slug}: tiles of {parse(layer.upstream).host}; version {layer.version}.")
        if not layer.attribution:
            self.stdout.write(f"{layer.slug}: has no --attribution. Most servers' terms of use ask for one.")

    def _compile(
        self, kind: geojson.Kind, path: Path, speeds: Path | None, weight: str | None
    ) -> compiling.CompiledLayer:
        limits = conf.limits()
        with about(path):
            apart.check_file(path, limits)
        if speeds:
            with about(speeds):
                apart.check_file(speeds, limits, SpeedsError)
        self.stdout.write(f"Reading {path} ({path.stat().st_size / 1e6:,.1f} MB) …")
        data, csv = path.read_bytes(), speeds.read_bytes() if speeds else None
        with tqdm(unit=" features", disable=None, leave=False) as bar:
            try:
                return compiling.compile_layer(kind, data, csv, limits, partial(self._show, bar), weight=weight)
            except LayerError as error:
                wrong = speeds if isinstance(error, SpeedsError) else path
                raise type(error)(f"{wrong}: {error}") from error

    def _show(self, bar: tqdm, done: int, total: int) -> None:
        """Moves the bar; where there is no terminal to draw it on, a line for each tenth."""
        if not bar.disable:
            bar.total = total
            bar.update(done - bar.n)
        elif done * 10 // total > (done - 1000) * 10 // total:
            self.stdout.write(f"{done:,} of {total:,} features")


def _weight(slug: str, fields: dict[str, Any]) -> str | None:
    """The property that points are weighed by: of the style that is named, else of that which the layer has."""
    named = fields.get("style", Layer.objects.filter(slug=slug).values_list("style", flat=True).first() or {})
    try:
        return style.parse_style("points", named).weight
    except LayerError as error:
        raise LayerError(f"style: {error}") from error


def _fields(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of the layer that were named on the command line."""
    fields = {field: options[name] for name, field in FIELDS.items() if options[name] is not None}
    if "style" in fields:
        try:
            fields["style"] = json.loads(fields["style"])
        except RecursionError as error:
            raise LayerError("--style is nested too deeply.") from error
        except ValueError as error:
            raise LayerError(f"--style is not JSON: {error}.") from error
    if "bounds" in fields:
        fields["bounds"] = _bounds(fields["bounds"])
    return fields


def _bounds(text: str) -> list[float]:
    try:
        return grid.Bounds.parse([float(number) for number in text.split(",")]).as_list()
    except (ValueError, LayerError) as error:
        raise LayerError(f"--bounds is {text[:60]!r}, not west,south,east,north in degrees.") from error
