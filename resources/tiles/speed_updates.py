"""Puts new speeds of some segments over those in service, so that no update loses another's rows.

Reads, compiles and writes without holding a lock of the database; then one transaction sees whether the
speeds are still those that were read, and saves, or all is done again. Whatever fails, nothing changes.
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

from resources.models import Layer

from .. import conf
from ..errors import NoSpeedsError, StorageError, SupersededError
from ..reading import patching, speeds
from ..reading.compiling import CompiledSpeeds
from ..reading.patching import Form, Patch
from ..reading.speeds import Report, Speeds
from . import allowing, apart, files, storing, touching, uploads
from .apart import PatchJob
from .touching import Change, Mark

PATIENCE_SECONDS = 20
"""So long an update gives way to others before it gives up."""

PAUSE_SECONDS = 0.05
SMALL_BYTES = 200_000
"""Smaller files are read in this process. For a layer of 100,000 segments that takes up to 70 ms, and another
process takes 200 to start."""
MOST_GEOMETRY_BYTES = 20_000_000
"""So large is the geometry of some 200,000 short segments; larger ones are never read in this process."""

_log = logging.getLogger("tarry.layers")

_turns: dict[str, Lock] = {}

Read = Callable[[bytes], Patch]


@dataclass(frozen=True, slots=True)
class Update:
    """What became of new speeds. `changed` counts segments whose speeds are others than before."""

    layer: Layer
    report: Report
    changed: int


def update_speeds(slug: str, read: Read, *, replace: bool = False, mark: Mark = touching.here) -> Update:
    """Puts the speeds that `read` makes of the compiled geometry over those in service, or in their place.

    Without a change nothing is stored, and the version stays. Raises UnknownLayerError, SpeedsError,
    NoSpeedsError for a layer that has none, SupersededError when others were always faster, StorageError.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    digest, patch, geometry, closely = None, None, b"", True
    while True:
        layer = _find_lines(slug)
        try:
            if patch is None or digest != layer.geometry_digest:
                digest, geometry = layer.geometry_digest, files.read(layer.geometry_name)
                patch = read(geometry)
            with _turn(slug, until) as at_once:
                layer, closely = _find_same(layer), closely and at_once
                return _put_over(layer, patch, partial(mark, layer, geometry, closely=closely), replace=replace)
        except SupersededError as error:  # losing is normal when several send speeds
            closely = False  # who takes longer loses again
            if time.monotonic() > until:
                raise SupersededError("Others change the layer's speeds all the time. Send these again.") from error
        except FileNotFoundError as error:
            _check_replaced(layer, error)
        time.sleep(random.uniform(0, PAUSE_SECONDS))


@contextmanager
def _turn(slug: str, until: float) -> Iterator[bool]:
    """Lets the threads of this process change a layer one after the other: they would only supersede each other.

    Answers whether nobody was before. Who waits for too long goes on without, as other processes do.
    """
    turn = _turns.setdefault(slug, Lock())
    at_once = turn.acquire(blocking=False)
    ours = at_once or turn.acquire(timeout=max(0.0, until - time.monotonic()))
    try:
        yield at_once
    finally:
        if ours:
            turn.release()


def _find_same(layer: Layer) -> Layer:
    """The layer as it is by now. Raises SupersededError where its geometry is another."""
    now = _find_lines(layer.slug)
    if now.geometry_digest != layer.geometry_digest:
        raise SupersededError("The layer was replaced meanwhile.")
    return now


def describe(update: Update) -> str:
    """One line about what became of the rows."""
    said = speeds.describe(update.report)
    if not update.changed:
        return f"{said} Nothing changed: the speeds are as they were."
    return f"{said} Changed segments: {update.changed:,}."


def read_upload(path: Path, form: Form, geometry: bytes) -> Patch:
    """The speeds of a file that somebody sent: read here when that is quick, else in a process of its own."""
    limits = conf.limits()
    if path.stat().st_size < SMALL_BYTES and len(geometry) < MOST_GEOMETRY_BYTES:
        return patching.read_patch(geometry, path.read_bytes(), form, limits)
    with uploads.folder(conf.uploads()) as folder:
        compiled = folder / "geometry.npz"
        compiled.write_bytes(geometry)
        job = PatchJob(compiled, path, form, limits)
        return apart.read_patch_apart(job, allowing.allowance())


def _find_lines(slug: str) -> Layer:
    layer = storing.find_layer(slug)
    if layer.kind != Layer.Kind.LINES:
        raise NoSpeedsError(f"“{slug}” is a layer of {layer.kind}; only lines have speeds.")
    return layer


def _put_over(layer: Layer, patch: Patch, mark: Callable[[Speeds | None, Speeds], Change], *, replace: bool) -> Update:
    before = _speeds(layer, needed=not replace)
    after = patch.over(None if replace else before)
    changed = patching.changed(before, after)
    measured_at = _newest(None if replace else layer.measured_at, patch.report.measured_at)
    if not changed:
        if measured_at != layer.measured_at:  # the same speeds, measured again: no tile looks different
            Layer.objects.filter(pk=layer.pk, speeds_name=layer.speeds_name).update(measured_at=measured_at)
            layer.measured_at = measured_at
        return Update(layer, patch.report, 0)
    change = mark(before, after) if before or not layer.speeds_name else None
    compiled = CompiledSpeeds(speeds.write_speeds(after), after.known)
    over = layer.speeds_name
    written = {**files.write_speeds(layer.slug, compiled), "measured_at": measured_at}
    return Update(storing.put_in_service(layer, written, (), over=over, change=change), patch.report, changed)


def _speeds(layer: Layer, *, needed: bool) -> Speeds | None:
    """The speeds in service, None if there are none. A lost file is an error only if they are needed."""
    if not layer.speeds_name:
        return None
    try:
        return speeds.read_speeds(files.read(layer.speeds_name))
    except FileNotFoundError:
        if needed:
            raise
        return None


def _newest(before: datetime | None, sent: datetime | None) -> datetime | None:
    """The later of the two. A moment in the future, which some clock made, does not stay."""
    until = conf.limits().measured_until
    assert until is not None
    return max((moment for moment in (before, sent) if moment and moment <= until), default=None)


def _check_replaced(layer: Layer, error: FileNotFoundError) -> None:
    """Raises StorageError unless the missing file was deleted because another took its place."""
    now = _find_lines(layer.slug)
    if (now.geometry_name, now.speeds_name) == (layer.geometry_name, layer.speeds_name):
        _log.error("a layer's file is lost", extra={"layer": layer.slug, "error": str(error)})
        raise StorageError("a file of the layer is lost; load its GeoJSON, or all of its speeds, again") from error
