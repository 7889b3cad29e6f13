"""Puts compiled data into service: the files first, then one row in one transaction.

Whatever fails, the old data stays in service. Files that no layer names any more are deleted.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Q

from resources.models import Layer
from retry import observing

from . import compiling, geometry, speeds, tile
from .compiling import CompiledLayer, CompiledSpeeds
from .errors import LayerError, SpeedsError, UnknownLayerError

_log = logging.getLogger("tarry.layers")


def store_layer(slug: str, compiled: CompiledLayer, fields: Mapping[str, Any]) -> Layer:
    """Creates the layer or replaces its data and the named fields. Raises ValidationError for bad fields."""
    written = write_files(checked_slug(slug), compiled)
    with transaction.atomic():
        layer = Layer.objects.select_for_update().filter(slug=slug).first() or Layer(slug=slug)
        replaced = {layer.geometry_name, layer.speeds_name}
        apply(layer, {**written, **fields})
        layer.full_clean()
        layer.save()
        transaction.on_commit(partial(delete_unused, replaced))
    return layer


def checked_slug(slug: str) -> str:
    """The slug, if it can stand in addresses and files' names. Raises LayerError."""
    if not re.fullmatch(tile.SLUG, slug):
        raise LayerError(f"“{slug[:60]}” is no name for a layer: {tile.SLUG_RULE}")
    return slug


def put_in_service(layer: Layer, written: Mapping[str, Any], changed: set[str] | None) -> None:
    """Saves a layer with files that were written for it; of the other fields only the changed, None: all."""
    with transaction.atomic():
        current = Layer.objects.select_for_update().filter(pk=layer.pk).first() if layer.pk else None
        replaced = {current.geometry_name, current.speeds_name} if current else set()
        apply(layer, written)
        layer.save(update_fields=None if changed is None else {*changed, *written})
        transaction.on_commit(partial(delete_unused, replaced))


def write_files(slug: str, compiled: CompiledLayer) -> dict[str, Any]:
    """Writes both files. Answers the fields of the layer that name and describe them."""
    return {
        "kind": compiled.kind,
        "bounds": compiled.bounds.as_list(),
        "geometry_name": _write(slug, compiled.geometry),
        "geometry_digest": sha256(compiled.geometry).hexdigest(),
        "segments": compiled.segments,
        "positions": compiled.positions,
        **write_speeds(slug, compiled.speeds),
    }


def write_speeds(slug: str, compiled: CompiledSpeeds) -> dict[str, Any]:
    return {
        "speeds_name": _write(slug, compiled.data),
        "speeds_known": compiled.known,
        "measured_at": compiled.report.measured_at if compiled.report else None,
    }


def replace_speeds(layer: Layer, compiled: CompiledSpeeds) -> Layer:
    """Puts speeds that were compiled for the layer's present geometry into service; tiles become stale."""
    written = write_speeds(layer.slug, compiled)
    with transaction.atomic():
        current = Layer.objects.select_for_update().filter(pk=layer.pk).first()
        if current is None or current.geometry_digest != layer.geometry_digest:
            delete_unused({written["speeds_name"]})
            raise SpeedsError("The layer was replaced while its speeds were read. Load them again.")
        replaced = {current.speeds_name}
        apply(current, written)
        current.save(update_fields=written.keys())
        transaction.on_commit(partial(delete_unused, replaced))
    return current


def store_speeds(slug: str, values: Mapping[str, tuple[float, float]]) -> speeds.Report:
    """Replaces a layer's speeds by (speed, free flow) in km/h by segment id. Unknown ids are counted."""
    layer = find_layer(slug)
    aligned, report = speeds.align(compiling.rows_of(values), segment_ids(layer))
    replace_speeds(layer, CompiledSpeeds(speeds.write_speeds(aligned), aligned.known, report))
    return report


def delete_layers(layers: Iterable[Layer]) -> None:
    """Deletes layers and then their files. Their tiles answer 404 from the next snapshot on."""
    gone = list(layers)
    with transaction.atomic():
        for layer in gone:
            layer.delete()
        names = {name for layer in gone for name in (layer.geometry_name, layer.speeds_name)}
        transaction.on_commit(partial(delete_unused, names))


def find_layer(slug: str) -> Layer:
    """The layer, switched off or not. Raises UnknownLayerError."""
    layer = Layer.objects.filter(slug=slug).first()
    if layer is None:
        raise UnknownLayerError(f"There is no layer “{slug}”.")
    return layer


def segment_ids(layer: Layer) -> list[str]:
    return geometry.read_ids(read_file(layer.geometry_name))


def read_file(name: str) -> bytes:
    """A file of the storage. Raises FileNotFoundError."""
    with observing.timed("storage"), default_storage.open(name) as file:
        data: bytes = file.read()
        return data


def apply(layer: Layer, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        setattr(layer, name, value)


def delete_unused(names: Iterable[str]) -> None:
    """Deletes files that no layer names. A painter that misses one looks the layer up again."""
    for name in filter(None, names):
        if Layer.objects.filter(Q(geometry_name=name) | Q(speeds_name=name)).exists():
            continue
        try:
            default_storage.delete(name)
        except OSError as error:  # the data in service is whole; what remains is a file too many
            _log.warning("could not delete a layer's file", extra={"file": name, "error": str(error)})


def _write(slug: str, data: bytes) -> str:
    """Writes data under its digest unless it is there. Answers the name that the storage gave it."""
    name = f"layers/{slug}/{sha256(data).hexdigest()}.npz"
    with observing.timed("storage"):
        if default_storage.exists(name):
            if default_storage.size(name) == len(data):
                return name
            default_storage.delete(name)  # an earlier writing was cut short
        return default_storage.save(name, ContentFile(data))
