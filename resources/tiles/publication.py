"""Publishes compiled data: the files first, then one row in one transaction.

On any failure the old data stays in service. Files that no layer names are deleted.

Before that it finds the tiles that the change touches, in this process or in a child process; they become stale
only if the layer is still in the state for which they were found, else all tiles do.

An own server is one of upstream tiles of which a layer says that it is the operator's own: the layer's requests in
flight replace the learnt rate there, below the limits that an admin sets for the domain.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from zipfile import BadZipFile

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import transaction
from django.db.models import QuerySet

from resources.fetch import host_settings
from retry.errors import StoreUnavailable

from . import compile_process, conf, layer_files, work
from .compile_process import CompileAllowance
from .data import arrays, compiler, speeds
from .data.compiler import CompiledLayer, CompiledSpeeds
from .data.geojson import LayerKind
from .data.speeds import SegmentSpeeds, SpeedRow, SpeedsReport
from .diff import changes
from .diff.changes import LayerData, LayerLook
from .errors import LayerError, SpeedsError, SupersededError, UnknownLayerError
from .grid import Bounds
from .metatiles import MetatileSizing
from .models import Layer, whole_world
from .tile_marks import TouchedTiles
from .upstream.templates import parse_template


def compile_allowance() -> CompileAllowance:
    return CompileAllowance(
        seconds=float(settings.LAYER_COMPILE_SECONDS),
        memory_bytes=int(settings.LAYER_COMPILE_BYTES),
        at_once=int(settings.LAYER_COMPILED_AT_ONCE),
        uploads=conf.uploads_folder(),
    )


MAX_CHANGED_IN_PROCESS = 500
"""Changed segments compared in a web process; more would hold up its other threads for a second."""

MAX_GEOMETRY_BYTES = 20_000_000
"""The size of about 200,000 short segments; larger geometries are never read in a web process."""

_log = logging.getLogger("tarry.layers")


@dataclass(frozen=True, slots=True)
class LayerChange:
    """The tiles that look different, None for all; and the state of the layer for which they were found."""

    touched: TouchedTiles | None
    of: tuple[object, ...]

    def touched_in(self, layer: Layer) -> TouchedTiles | None:
        """Returns the same for the present layer: None, all tiles, if another change came in between."""
        return self.touched if self.of == _layer_state(layer) else None


def find_speeds_change(
    layer: Layer, geometry: bytes, before: SegmentSpeeds | None, after: SegmentSpeeds, *, in_child: bool = False
) -> LayerChange:
    """Finds the tiles that new speeds touch. With `in_child`, as in a web process, long work is done in a child."""
    is_long = in_child and (
        before is None
        or len(geometry) >= MAX_GEOMETRY_BYTES
        or compiler.count_changed(before, after) > MAX_CHANGED_IN_PROCESS
    )
    find = partial(changes.tiles_changed_by_speeds, geometry, before, after, _layer_look(layer))
    return _find_change(layer, find, in_child=is_long)


def find_data_change(layer: Layer, before: LayerData, after: LayerData, *, in_child: bool) -> LayerChange:
    """Finds the tiles that other data of the same kind touch."""
    find = partial(changes.tiles_changed_by_data, cast(LayerKind, layer.kind), before, after, _layer_look(layer))
    return _find_change(layer, find, in_child=in_child)


def _find_change(layer: Layer, find: Callable[[], TouchedTiles | None], *, in_child: bool) -> LayerChange:
    """Finds them here or in a child process; all tiles if no child can be started."""
    if not in_child:
        return LayerChange(find(), _layer_state(layer))
    try:
        return LayerChange(compile_process.run_in_child(find, compile_allowance()), _layer_state(layer))
    except LayerError as error:
        _log.warning("marked all tiles of a layer", extra={"layer": layer.slug, "error": str(error)})
        return LayerChange(None, _layer_state(layer))


def _layer_look(layer: Layer) -> LayerLook:
    return LayerLook(layer.style, layer.min_zoom, layer.max_zoom)


def _layer_state(layer: Layer) -> tuple[object, ...]:
    return layer.kind, layer.geometry_name, layer.speeds_name, layer.style, layer.min_zoom, layer.max_zoom


def keep_stored_speeds(slug: str, compiled: CompiledLayer) -> CompiledLayer:
    """Returns the layer with the speeds in service if it has none of its own. Stores nothing."""
    layer = Layer.objects.filter(slug=slug, kind=Layer.Kind.LINES, speeds_known__gt=0).first()
    if layer is None or compiled.kind != "lines" or compiled.speeds.report or compiled.speeds.known:
        return compiled
    try:
        before = layer_files.read_file(layer.geometry_name), layer_files.read_file(layer.speeds_name)
    except FileNotFoundError as error:  # a layer with lost files is mended by replacing it
        _log.warning("a layer's speeds are lost", extra={"layer": slug, "error": str(error)})
        return compiled
    return compiler.keep_old_speeds(compiled, *before, layer.measured_at)


def describe_speeds(compiled: CompiledSpeeds) -> str:
    """Describes in one line the source of a layer's speeds; empty for those of its own GeoJSON."""
    report = compiled.report
    if report is None:
        return ""
    if compiled.kept:
        return f"{report.rows - report.unknown:,} of the {report.rows:,} speeds from before were kept."
    return speeds.describe_report(report)


def check_fields(slug: str, fields: Mapping[str, Any]) -> None:
    """Raises ValidationError for fields with which the layer could not be stored, even with good data."""
    _layer_with_fields(Layer.objects.all(), slug, {**fields, **layer_files.NO_UPSTREAM_FIELDS}).full_clean()


def store_layer(slug: str, compiled: CompiledLayer, fields: Mapping[str, Any]) -> Layer:
    """Creates the layer or replaces its data and the named fields. Raises ValidationError for bad fields."""
    described = _described_fields(compiled, fields)
    _layer_with_fields(Layer.objects.all(), slug, described).full_clean()
    change = find_layer_change(slug, compiled, described)
    written = layer_files.write_layer_files(slug, compiled)
    with layer_files.discard_on_failure(written), transaction.atomic():
        layer = _layer_with_fields(Layer.objects.select_for_update(), slug, described)
        return publish_layer(layer, {**written, **described}, None, change=change)


def find_layer_change(
    slug: str, compiled: CompiledLayer, fields: Mapping[str, Any], *, in_child: bool = False
) -> LayerChange | None:
    """Finds the change that new data make in a layer whose fields stay the same; None for all of the layer."""
    layer = Layer.objects.filter(slug=slug).exclude(geometry_name="").first()
    if layer is None or any(getattr(layer, name) != value for name, value in fields.items() if name != "bounds"):
        return None
    try:
        before = LayerData(layer_files.read_file(layer.geometry_name), layer_files.read_file(layer.speeds_name))
        return find_data_change(layer, before, LayerData(compiled.geometry, compiled.speeds.data), in_child=in_child)
    except (FileNotFoundError, BadZipFile, ValueError, KeyError) as error:  # lost files are mended by replacing them
        _log.warning("a layer's files cannot be compared", extra={"layer": slug, "error": str(error)})
        return None


def read_layer(layer: Layer) -> CompiledLayer:
    """Reads the layer's data in service. Raises FileNotFoundError or LayerStorageError."""
    return CompiledLayer(
        kind=cast(LayerKind, layer.kind),
        geometry=layer_files.read_file(layer.geometry_name),
        bounds=Bounds.parse(layer.bounds),
        segments=layer.segments,
        positions=layer.positions,
        speeds=CompiledSpeeds(layer_files.read_file(layer.speeds_name), layer.speeds_known),
    )


def measure_metatiles(slug: str, compiled: CompiledLayer, fields: Mapping[str, Any]) -> CompiledLayer:
    """Returns the layer with the sides of its metatiles, measured as it will be stored. Raises ValidationError."""
    layer = _layer_with_fields(Layer.objects.all(), slug, _described_fields(compiled, fields))
    layer.full_clean()
    sizing = MetatileSizing(layer.style, layer.min_zoom, layer.max_zoom, settings.LAYER_BLOCK_SECONDS)
    return sizing.size(compiled, time.process_time)


def _described_fields(compiled: CompiledLayer, fields: Mapping[str, Any]) -> dict[str, Any]:
    bounds = fields.get("bounds", compiled.bounds.rounded().as_list())
    return {**fields, **layer_files.NO_UPSTREAM_FIELDS, "kind": compiled.kind, "bounds": bounds}


def _layer_with_fields(layers: QuerySet[Layer], slug: str, fields: Mapping[str, Any]) -> Layer:
    """Returns the layer of that name, or a new one, with some fields set and nothing saved."""
    layer = layers.filter(slug=slug).first() or Layer(slug=slug)
    _set_fields(layer, fields)
    return layer


def _set_fields(layer: Layer, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(layer, name, value)


def publish_layer(
    layer: Layer,
    written: Mapping[str, Any],
    changed: Collection[str] | None,
    *,
    over: str | None = None,
    change: LayerChange | None = None,
) -> Layer:
    """Saves a layer with the files written for it. Of other fields saves only the `changed` ones, None: all.

    Makes all tiles stale or, if `change` knows the touched tiles, only these.

    Raises SpeedsError, saving nothing, when the speeds belong to a geometry that was replaced, and
    SupersededError when the speeds in service are no longer those of the file `over`.
    On any failure the written files are deleted.
    """
    with layer_files.discard_on_failure(written), transaction.atomic():
        current = Layer.objects.select_for_update().filter(pk=layer.pk).first() if layer.pk else None
        replaced = {current.geometry_name, current.speeds_name} if current else set()
        has_only_speeds = "geometry_name" not in written and "speeds_name" in written
        if current and has_only_speeds and current.geometry_digest != layer.geometry_digest:
            raise SpeedsError("The layer was replaced while its speeds were read. Load them again.")
        if over is not None and (current is None or current.speeds_name != over):
            raise SupersededError("Other speeds arrived in the meantime.")
        touched = change.touched_in(current) if change and current else None
        _set_fields(layer, written)
        layer.version = max(layer.version, current.version if current else 0)
        if touched is None or current is None:
            layer.save(update_fields=None if changed is None else {*changed, *written})
        else:
            layer.save_touched(touched, current, written)
        transaction.on_commit(partial(layer_files.delete_unused_files, replaced), robust=True)
        transaction.on_commit(apply_own_servers_soon, robust=True)
        if current:  # of a new layer nothing is popular
            transaction.on_commit(partial(work.refresh_soon, layer.slug, layer.version), robust=True)
    return layer


def replace_speeds(layer: Layer, compiled: CompiledSpeeds, geometry: bytes) -> Layer:
    """Publishes speeds compiled for the layer's geometry; the tiles that they touch become stale."""
    change = find_replacement_change(layer, compiled, geometry)
    return publish_layer(layer, layer_files.write_speeds_file(layer.slug, compiled), (), change=change)


def find_replacement_change(
    layer: Layer, compiled: CompiledSpeeds, geometry: bytes, *, in_child: bool = False
) -> LayerChange | None:
    """Finds the change made by speeds that replace those in service; None for all of the layer."""
    before = read_speeds_in_service(layer)
    if before is None:
        return None
    return find_speeds_change(layer, geometry, before, speeds.read_speeds(compiled.data), in_child=in_child)


def read_speeds_in_service(layer: Layer, *, needed: bool = False) -> SegmentSpeeds | None:
    """Reads the speeds in service, None if there are none. A lost file is an error only if they are needed."""
    try:
        return speeds.read_speeds(layer_files.read_file(layer.speeds_name)) if layer.speeds_name else None
    except FileNotFoundError:
        if needed:
            raise
        return None


def store_speeds(slug: str, values: Mapping[str, tuple[float, float]]) -> SpeedsReport:
    """Replaces a layer's speeds by (speed, free flow) in km/h by segment id. Counts unknown ids."""
    layer = find_layer(slug)
    shapes = layer_files.read_file(layer.geometry_name)
    rows = [SpeedRow(identity, *pair) for identity, pair in values.items()]
    aligned, report = speeds.align_speeds(rows, arrays.read_segment_ids(shapes))
    replace_speeds(layer, CompiledSpeeds(speeds.write_speeds(aligned), aligned.known, report), shapes)
    return report


def delete_layers(layers: Iterable[Layer]) -> None:
    """Deletes layers and then their files. Their tiles answer 404 from the next snapshot on."""
    gone = list(layers)
    with transaction.atomic():
        for layer in gone:
            layer.delete()
        names = {name for layer in gone for name in (layer.geometry_name, layer.speeds_name)}
        transaction.on_commit(partial(layer_files.delete_unused_files, names))
        transaction.on_commit(apply_own_servers_soon, robust=True)


def find_layer(slug: str) -> Layer:
    """Finds the layer, enabled or not. Raises UnknownLayerError."""
    layer = Layer.objects.filter(slug=slug).first()
    if layer is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return layer


def segment_ids(layer: Layer) -> list[str]:
    return arrays.read_segment_ids(layer_files.read_file(layer.geometry_name))


NO_DATA_FIELDS: Mapping[str, Any] = {
    **{"geometry_name": "", "geometry_digest": "", "speeds_name": "", "metatiles": {}},
    **{"segments": 0, "positions": 0, "speeds_known": 0, "measured_at": None},
}
"""The fields of a layer without data: storing them deletes the layer's former files."""


def store_upstream_layer(slug: str, template: str, fields: Mapping[str, Any]) -> Layer:
    """Creates an upstream layer, or turns a layer into one, with the named fields. Raises ValidationError.

    The layer's former data go, with their files, style and bounds.
    """
    with transaction.atomic():
        layer = _layer_with_fields(Layer.objects.select_for_update(), slug, {})
        if layer.kind != Layer.Kind.UPSTREAM:
            layer.style, layer.bounds = {}, whole_world()
        _set_fields(layer, {**fields, "kind": Layer.Kind.UPSTREAM, "upstream": template})
        if "most_fresh_seconds" not in fields:
            layer.most_fresh_seconds = max(layer.most_fresh_seconds, layer.fresh_seconds)
        layer.full_clean()
        return publish_layer(layer, NO_DATA_FIELDS, None)


def apply_own_servers() -> None:
    """Puts what layers say into force, and withdraws what none says any more. Raises StoreUnavailable."""
    host_settings.set_own_servers(find_own_servers)


def apply_own_servers_soon() -> None:
    """Does the same; if a store is away, the periodic task makes up for it."""
    try:
        apply_own_servers()
    except (StoreUnavailable, DatabaseError) as error:
        _log.info("the limits of own servers wait", extra={"error": str(error)})


def find_own_servers() -> Mapping[str, int]:
    """Returns the most requests in flight by the domain of each own server: of several layers, the least counts.

    The subdomains of an address share its number: they are names of one server.
    """
    found: dict[str, int] = {}
    for text, in_flight in Layer.objects.with_own_server().values_list("upstream", "upstream_in_flight"):
        assert in_flight is not None
        with suppress(LayerError):  # a layer that is left out everywhere
            scopes = parse_template(text).scopes
            for scope in scopes:
                each = max(1, in_flight // len(scopes))
                found[scope] = min(each, found.get(scope, each))
    return found
