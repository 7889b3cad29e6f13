"""Applies new speeds of some segments to those in service, so that no update loses the rows of another.

Reads, compiles and writes without a lock of the database. Then one transaction checks that the speeds are still
those that were read, and saves; else all is done again. On any failure nothing changes.
"""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Lock

from . import compile_process, conf, layer_files, publication
from .data import compiler, speeds
from .data.compiler import CompiledSpeeds, SpeedsFormat, SpeedsPatch
from .data.speeds import SpeedsReport
from .errors import LayerStorageError, NoSpeedsError, SupersededError
from .models import Layer
from .publication import MAX_GEOMETRY_BYTES

PATIENCE_SECONDS = 20
"""Time for which an update gives way to others before it gives up."""

MAX_PAUSE_SECONDS = 0.05
SMALL_UPLOAD_BYTES = 200_000
"""Smaller files are read in this process. For a layer of 100,000 segments that takes up to 70 ms; a child
process takes 200 ms to start."""

_log = logging.getLogger("tarry.layers")

_locks_by_slug: dict[str, Lock] = {}

ReadPatch = Callable[[bytes], SpeedsPatch]


@dataclass(frozen=True, slots=True)
class SpeedsUpdate:
    """The result of an update. `changed` counts the segments whose speeds differ from before."""

    layer: Layer
    report: SpeedsReport
    changed: int


def update_speeds(slug: str, read: ReadPatch, *, replace: bool = False, in_child: bool = False) -> SpeedsUpdate:
    """Applies the speeds that `read` makes of the compiled geometry to those in service, or replaces them.

    Without a change nothing is stored, and the version stays. Raises UnknownLayerError, SpeedsError,
    NoSpeedsError for a layer without speeds, SupersededError when other updates were always faster,
    LayerStorageError.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    digest, patch, geometry = None, None, b""
    while True:
        layer = _find_lines(slug)
        try:
            if patch is None or digest != layer.geometry_digest:
                digest, geometry = layer.geometry_digest, layer_files.read_file(layer.geometry_name)
                patch = read(geometry)
            with _layer_turn(slug, until):
                layer = _find_unchanged(layer)
                return _apply_patch(layer, geometry, patch, replace=replace, in_child=in_child)
        except SupersededError as error:  # losing is normal when several clients send speeds
            if time.monotonic() > until:
                raise SupersededError("Other requests keep changing the layer's speeds. Send these again.") from error
        except FileNotFoundError as error:
            _check_replaced(layer, error)
        time.sleep(random.uniform(0, MAX_PAUSE_SECONDS))


@contextmanager
def _layer_turn(slug: str, until: float) -> Iterator[None]:
    """Lets the threads of this process change a layer one by one: they would only supersede each other.

    After the timeout the thread proceeds without the lock.
    """
    turn = _locks_by_slug.setdefault(slug, Lock())
    ours = turn.acquire(timeout=max(0.0, until - time.monotonic()))
    try:
        yield
    finally:
        if ours:
            turn.release()


def _find_unchanged(layer: Layer) -> Layer:
    """Returns the present layer. Raises SupersededError if its geometry was replaced."""
    now = _find_lines(layer.slug)
    if now.geometry_digest != layer.geometry_digest:
        raise SupersededError("The layer was replaced in the meantime.")
    return now


def describe_update(update: SpeedsUpdate) -> str:
    report = speeds.describe_report(update.report)
    if not update.changed:
        return f"{report} Nothing changed: the speeds are as they were."
    return f"{report} Changed segments: {update.changed:,}."


def read_upload(path: Path, form: SpeedsFormat, geometry: bytes) -> SpeedsPatch:
    """Reads the speeds of an uploaded file: in this process if that is quick, else in a child process."""
    limits = conf.layer_limits()
    if path.stat().st_size < SMALL_UPLOAD_BYTES and len(geometry) < MAX_GEOMETRY_BYTES:
        return compiler.read_patch(geometry, path.read_bytes(), form, limits)
    read = partial(compiler.read_patch, geometry, form=form, limits=limits)
    return compile_process.read_speeds_in_child(read, path, publication.compile_allowance())


def _find_lines(slug: str) -> Layer:
    layer = publication.find_layer(slug)
    if layer.kind != Layer.Kind.LINES:
        raise NoSpeedsError(f"“{slug}” is a layer of {layer.kind}; only lines have speeds.")
    return layer


def _apply_patch(layer: Layer, geometry: bytes, patch: SpeedsPatch, *, replace: bool, in_child: bool) -> SpeedsUpdate:
    before = publication.read_speeds_in_service(layer, needed=not replace)
    after = patch.over(None if replace else before)
    changed = compiler.count_changed(before, after)
    measured_at = _newest_moment(None if replace else layer.measured_at, patch.report.measured_at)
    if not changed:
        if measured_at != layer.measured_at:  # the same speeds, measured again: no tile looks different
            Layer.objects.filter(pk=layer.pk, speeds_name=layer.speeds_name).update(measured_at=measured_at)
            layer.measured_at = measured_at
        return SpeedsUpdate(layer, patch.report, 0)
    change = None
    if before or not layer.speeds_name:
        change = publication.find_speeds_change(layer, geometry, before, after, in_child=in_child)
    compiled = CompiledSpeeds(speeds.write_speeds(after), after.known)
    over = layer.speeds_name
    written = {**layer_files.write_speeds_file(layer.slug, compiled), "measured_at": measured_at}
    return SpeedsUpdate(publication.publish_layer(layer, written, (), over=over, change=change), patch.report, changed)


def _newest_moment(before: datetime | None, sent: datetime | None) -> datetime | None:
    """Returns the later of the two. Drops a moment in the future, made by a wrong clock."""
    until = conf.layer_limits().measured_until
    assert until is not None
    return max((moment for moment in (before, sent) if moment and moment <= until), default=None)


def _check_replaced(layer: Layer, error: FileNotFoundError) -> None:
    """Raises LayerStorageError unless the missing file was deleted because another took its place."""
    now = _find_lines(layer.slug)
    if (now.geometry_name, now.speeds_name) == (layer.geometry_name, layer.speeds_name):
        _log.error("a layer's file is lost", extra={"layer": layer.slug, "error": str(error)})
        raise LayerStorageError("a file of the layer is lost; load its GeoJSON, or all of its speeds, again") from error
