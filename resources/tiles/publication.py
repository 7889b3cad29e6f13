"""Puts compiled data into service: the files first, then one row in one transaction.

Whatever fails, the old data stays in service. Files that no layer names any more are deleted.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, cast
from zipfile import BadZipFile

from django.db import transaction
from django.db.models import QuerySet

from resources.models import Layer

from .. import conf, refreshing
from ..errors import SpeedsError, SupersededError, UnknownLayerError
from ..grid import Bounds
from ..marking.shapes import Data
from ..reading import compiling, geometry, speeds
from ..reading.compiling import CompiledLayer, CompiledSpeeds
from ..reading.geojson import Kind
from ..sizing.sides import Sizing
from . import files, touching
from .touching import Change, Mark, MarkData

_log = logging.getLogger("tarry.layers")


def keep_speeds(slug: str, compiled: CompiledLayer) -> CompiledLayer:
    """The layer with the speeds that it has already, when it comes without any. Stores nothing."""
    layer = Layer.objects.filter(slug=slug, kind=Layer.Kind.LINES, speeds_known__gt=0).first()
    if layer is None or compiled.kind != "lines" or compiled.speeds.report or compiled.speeds.known:
        return compiled
    try:
        before = files.read(layer.geometry_name), files.read(layer.speeds_name)
    except FileNotFoundError as error:  # replacing a layer whose files are lost is how it is mended
        _log.warning("a layer's speeds are lost", extra={"layer": slug, "error": str(error)})
        return compiled
    return compiling.keep_speeds(compiled, *before, layer.measured_at)


def describe_speeds(compiled: CompiledSpeeds) -> str:
    """One line about where the speeds of a layer come from; empty for those of its own GeoJSON."""
    report = compiled.report
    if report is None:
        return ""
    if compiled.kept:
        return f"{report.rows - report.unknown:,} of the {report.rows:,} speeds from before were kept."
    return speeds.describe(report)


def check_fields(slug: str, fields: Mapping[str, Any]) -> None:
    """Raises ValidationError for fields that the layer could not be stored with, whatever its data."""
    _with_fields(Layer.objects.all(), slug, {**fields, "upstream": ""}).full_clean()


def store_layer(slug: str, compiled: CompiledLayer, fields: Mapping[str, Any]) -> Layer:
    """Creates the layer or replaces its data and the named fields. Raises ValidationError for bad fields."""
    described = _described(compiled, fields)
    _with_fields(Layer.objects.all(), slug, described).full_clean()
    change = change_of(slug, compiled, described)
    written = files.write(slug, compiled)
    with files.discarded_on_failure(written), transaction.atomic():
        layer = _with_fields(Layer.objects.select_for_update(), slug, described)
        return put_in_service(layer, {**written, **described}, None, change=change)


def change_of(
    slug: str, compiled: CompiledLayer, fields: Mapping[str, Any], mark: MarkData = touching.by_data
) -> Change | None:
    """What the data change in a layer that stays the same besides; None for all of it."""
    layer = Layer.objects.filter(slug=slug).exclude(geometry_name="").first()
    if layer is None or any(getattr(layer, name) != value for name, value in fields.items() if name != "bounds"):
        return None
    try:
        before = Data(files.read(layer.geometry_name), files.read(layer.speeds_name))
        return mark(layer, before, Data(compiled.geometry, compiled.speeds.data))
    except (
        FileNotFoundError,
        BadZipFile,
        ValueError,
        KeyError,
    ) as error:  # replacing lost files is how they are mended
        _log.warning("a layer's files cannot be compared", extra={"layer": slug, "error": str(error)})
        return None


def read_layer(layer: Layer) -> CompiledLayer:
    """The layer's data as it is in service. Raises FileNotFoundError or StorageError."""
    return CompiledLayer(
        kind=cast(Kind, layer.kind),
        geometry=files.read(layer.geometry_name),
        bounds=Bounds.parse(layer.bounds),
        segments=layer.segments,
        positions=layer.positions,
        speeds=CompiledSpeeds(files.read(layer.speeds_name), layer.speeds_known),
    )


def size_blocks(slug: str, compiled: CompiledLayer, fields: Mapping[str, Any]) -> CompiledLayer:
    """The layer with the sides of its blocks, measured as it will be stored. Raises ValidationError for bad fields."""
    layer = _with_fields(Layer.objects.all(), slug, _described(compiled, fields))
    layer.full_clean()
    sizing = Sizing(layer.style, layer.min_zoom, layer.max_zoom, conf.block_seconds())
    return sizing.size(compiled, time.process_time)


def _described(compiled: CompiledLayer, fields: Mapping[str, Any]) -> dict[str, Any]:
    bounds = fields.get("bounds", compiled.bounds.rounded().as_list())
    return {**fields, "kind": compiled.kind, "upstream": "", "bounds": bounds}


def _with_fields(layers: QuerySet[Layer], slug: str, fields: Mapping[str, Any]) -> Layer:
    """The layer of that name, or a new one, with some fields set and nothing saved."""
    layer = layers.filter(slug=slug).first() or Layer(slug=slug)
    for name, value in fields.items():
        setattr(layer, name, value)
    return layer


def put_in_service(
    layer: Layer,
    written: Mapping[str, Any],
    changed: Collection[str] | None,
    *,
    over: str | None = None,
    change: Change | None = None,
) -> Layer:
    """Saves a layer with files that were written for it; of the other fields only the changed, None: all.

    All tiles are stale then, or where it is known what the change touches, only those.

    Raises SpeedsError, saving nothing, when the speeds belong to a geometry that was replaced, and
    SupersededError when the speeds in service are not those of the file `over` any more.
    On any failure the written files are deleted.
    """
    with files.discarded_on_failure(written), transaction.atomic():
        current = Layer.objects.select_for_update().filter(pk=layer.pk).first() if layer.pk else None
        replaced = {current.geometry_name, current.speeds_name} if current else set()
        if current and "geometry_name" not in written and "speeds_name" in written:
            _check_same_geometry(layer, current)
        if over is not None and (current is None or current.speeds_name != over):
            raise SupersededError("Other speeds came in meanwhile.")
        touched = change.touched_in(current) if change and current else None
        for name, value in written.items():
            setattr(layer, name, value)
        layer.version = max(layer.version, current.version if current else 0)
        if touched is None or current is None:
            layer.save(update_fields=None if changed is None else {*changed, *written})
        else:
            layer.save_touched(touched, current, written)
        transaction.on_commit(partial(files.delete_unused, replaced), robust=True)
        if current:  # of a new layer nothing is popular
            transaction.on_commit(partial(refreshing.refresh_soon, layer.slug, layer.version), robust=True)
    return layer


def _check_same_geometry(layer: Layer, current: Layer) -> None:
    if current.geometry_digest != layer.geometry_digest:
        raise SpeedsError("The layer was replaced while its speeds were read. Load them again.")


def replace_speeds(layer: Layer, compiled: CompiledSpeeds, geometry: bytes) -> Layer:
    """Puts speeds that were compiled for the layer's geometry into service; tiles that they touch become stale."""
    change = change_by_speeds(layer, compiled, geometry)
    return put_in_service(layer, files.write_speeds(layer.slug, compiled), (), change=change)


def change_by_speeds(
    layer: Layer, compiled: CompiledSpeeds, geometry: bytes, mark: Mark = touching.here
) -> Change | None:
    """What speeds in the place of those in service change; None for all of the layer."""
    before = _speeds_before(layer)
    return mark(layer, geometry, before, speeds.read_speeds(compiled.data)) if before else None


def _speeds_before(layer: Layer) -> speeds.Speeds | None:
    """The speeds in service; None where there are none, or their file is lost: these take their place."""
    try:
        return speeds.read_speeds(files.read(layer.speeds_name)) if layer.speeds_name else None
    except FileNotFoundError:
        return None


def store_speeds(slug: str, values: Mapping[str, tuple[float, float]]) -> speeds.Report:
    """Replaces a layer's speeds by (speed, free flow) in km/h by segment id. Unknown ids are counted."""
    layer = find_layer(slug)
    shapes = files.read(layer.geometry_name)
    aligned, report = speeds.align(compiling.rows_of(values), geometry.read_ids(shapes))
    replace_speeds(layer, CompiledSpeeds(speeds.write_speeds(aligned), aligned.known, report), shapes)
    return report


def delete_layers(layers: Iterable[Layer]) -> None:
    """Deletes layers and then their files. Their tiles answer 404 from the next snapshot on."""
    gone = list(layers)
    with transaction.atomic():
        for layer in gone:
            layer.delete()
        names = {name for layer in gone for name in (layer.geometry_name, layer.speeds_name)}
        transaction.on_commit(partial(files.delete_unused, names))


def find_layer(slug: str) -> Layer:
    """The layer, switched off or not. Raises UnknownLayerError."""
    layer = Layer.objects.filter(slug=slug).first()
    if layer is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return layer


def segment_ids(layer: Layer) -> list[str]:
    return geometry.read_ids(files.read(layer.geometry_name))
