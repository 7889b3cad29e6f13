"""`manage.py load_layer SLUG`: creates a layer, or replaces its data."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from tqdm import tqdm  # type: ignore[import-untyped]

from resources.fetch.models import MAX_IN_FLIGHT
from resources.tiles import compile_process, conf, grid, publication, styles
from resources.tiles.data import compiler, geojson
from resources.tiles.errors import LayerError, SpeedsError
from resources.tiles.models import Layer
from resources.tiles.publication import store_upstream_layer
from resources.tiles.upstream.templates import parse_template

from ..cli import SiteCommand, fail_clearly, prefix_errors

SAME_NAMES = ("title", "attribution", "note", "min_zoom", "max_zoom", "order", "base", "style", "bounds")
OPTION_FIELDS = {
    **{name: name for name in SAME_NAMES},
    **{name: f"{name}_seconds" for name in ("fresh", "stale", "client", "most_fresh")},
    "in_flight": "upstream_in_flight",
}


class Command(SiteCommand):
    help = "Creates a layer, or replaces its data and the settings named here. On any error the old data stays."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="part of the address: /tiles/SLUG/…")
        data = parser.add_mutually_exclusive_group(required=True)
        data.add_argument("--lines", type=Path, metavar="F.geojson", help="lines, coloured by speed")
        data.add_argument("--areas", type=Path, metavar="F.geojson", help="areas, filled")
        data.add_argument("--points", type=Path, metavar="F.geojson", help="points, as clusters, heat or dots")
        data.add_argument(
            "--upstream",
            metavar="URL",
            help="tiles of another server: https://…/{z}/{x}/{y}.png, also {-y}, {q}, {s}, {r}, {format}",
        )
        parser.add_argument(
            "--in-flight",
            type=int,
            metavar="N",
            help=f"that server is yours: it gets up to N requests at a time, 1 to {MAX_IN_FLIGHT}, without a gap",
        )
        parser.add_argument("--speeds", type=Path, metavar="F.csv", help="the speeds of the lines")
        parser.add_argument("--title")
        parser.add_argument("--attribution")
        parser.add_argument("--note")
        parser.add_argument("--min-zoom", type=int)
        parser.add_argument("--max-zoom", type=int)
        for name, text in (
            ("--fresh", "time for which tiles are fresh"),
            ("--stale", "time for which stale tiles are served while they are refreshed"),
            ("--most-fresh", "upper limit of the freshness that another server declares"),
            ("--client", "time for which browsers keep tiles"),
        ):
            parser.add_argument(name, type=float, metavar="SECONDS", help=text)
        parser.add_argument("--bounds", metavar="W,S,E,N", help="in degrees; default: the bounds of the data")
        parser.add_argument("--order", type=int, help="higher numbers are drawn on top")
        parser.add_argument("--base", action="store_true", default=None, help="part of the base map")
        parser.add_argument(
            "--style", metavar="JSON", help="widths, colours, thresholds; of points mode, radius, weight"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["upstream"] is not None:
            self._load_upstream(options)
            return
        for name in ("most_fresh", "in_flight"):
            if options[name] is not None:
                raise CommandError(f"--{name.replace('_', '-')} is only for tiles of another server.")
        kind: geojson.LayerKind = "lines" if options["lines"] else "areas" if options["areas"] else "points"
        with fail_clearly():
            fields = _given_fields(options)
            publication.check_fields(options["slug"], {**fields, "kind": kind})
            weight = _point_weight(options["slug"], fields) if kind == "points" else None
            compiled = self._compile(kind, options[kind], options["speeds"], weight)
            compiled = publication.keep_stored_speeds(options["slug"], compiled)
            compiled = publication.measure_metatiles(options["slug"], compiled, fields)
            layer = publication.store_layer(options["slug"], compiled, fields)
        speeds = f", {layer.speeds_known:,} with speeds" if kind == "lines" else ""
        self.stdout.write(
            f"{layer.slug}: {layer.segments:,} {kind}, {layer.positions:,} positions{speeds}; version {layer.version}."
        )
        if report := publication.describe_speeds(compiled.speeds):
            self.stdout.write(f"{layer.slug}: {report}")

    def _load_upstream(self, options: dict[str, Any]) -> None:
        """Creates a layer of another server's tiles: there is no file to read."""
        with fail_clearly():
            if options["speeds"]:
                raise LayerError("--speeds is only for lines.")
            layer = store_upstream_layer(options["slug"], options["upstream"].strip(), _given_fields(options))
        self.stdout.write(f"{layer.slug}: tiles of {parse_template(layer.upstream).host}; version {layer.version}.")
        if not layer.attribution:
            self.stdout.write(f"{layer.slug}: has no --attribution. Most servers' terms of use ask for one.")

    def _compile(
        self, kind: geojson.LayerKind, path: Path, speeds: Path | None, weight: str | None
    ) -> compiler.CompiledLayer:
        limits = conf.layer_limits()
        with prefix_errors(path):
            compile_process.check_file(path, limits)
        if speeds:
            with prefix_errors(speeds):
                compile_process.check_file(speeds, limits, SpeedsError)
        self.stdout.write(f"Reading {path} ({path.stat().st_size / 1e6:,.1f} MB) …")
        data, csv = path.read_bytes(), speeds.read_bytes() if speeds else None
        with tqdm(unit=" features", disable=None, leave=False) as bar:
            try:
                return compiler.compile_layer(kind, data, csv, limits, partial(self._show, bar), weight=weight)
            except LayerError as error:
                wrong = speeds if isinstance(error, SpeedsError) else path
                raise type(error)(f"{wrong}: {error}") from error

    def _show(self, bar: tqdm, done: int, total: int) -> None:
        """Moves the bar; without a terminal, prints a line for each tenth."""
        if not bar.disable:
            bar.total = total
            bar.update(done - bar.n)
        elif done * 10 // total > (done - 1000) * 10 // total:
            self.stdout.write(f"{done:,} of {total:,} features")


def _point_weight(slug: str, fields: dict[str, Any]) -> str | None:
    """Returns the weight property of points, from the given style, else from the layer's present one."""
    named = fields.get("style", Layer.objects.filter(slug=slug).values_list("style", flat=True).first() or {})
    try:
        return styles.parse_style("points", named).weight
    except LayerError as error:
        raise LayerError(f"style: {error}") from error


def _given_fields(options: dict[str, Any]) -> dict[str, Any]:
    fields = {field: options[name] for name, field in OPTION_FIELDS.items() if options[name] is not None}
    if "style" in fields:
        try:
            fields["style"] = json.loads(fields["style"])
        except RecursionError as error:
            raise LayerError("--style is nested too deeply.") from error
        except ValueError as error:
            raise LayerError(f"--style is not JSON: {error}.") from error
    if "bounds" in fields:
        fields["bounds"] = _parse_bounds(fields["bounds"])
    return fields


def _parse_bounds(text: str) -> list[float]:
    try:
        return grid.Bounds.parse([float(number) for number in text.split(",")]).as_list()
    except (ValueError, LayerError) as error:
        raise LayerError(f"--bounds is {text[:60]!r}, not west,south,east,north in degrees.") from error
