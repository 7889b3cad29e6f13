"""Compiles in a process of its own: parsing a large file would hold the web process' GIL for seconds.

The child imports nothing of Django. `python -m resources.tiles.keeping.apart FOLDER BYTES SECONDS PARENT`
is its side. It ends with the process that started it.
"""

import math
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from ...parents import end_with
from ..errors import LayerError, SpeedsError
from ..marking import changing, shapes
from ..reading import geojson, speeds
from ..reading.compiling import CompiledLayer, CompiledSpeeds, compile_layer, compile_speeds
from ..reading.patching import Form, Patch, read_patch
from ..sizing.sides import Sizing
from ..touched import Touched
from . import uploads

ROOT = Path(__file__).resolve().parents[3]
BROKEN = "The file could not be read, by a fault of this site: its log has the reason."
TOO_LARGE = "The file is too large for this machine: reading it takes more memory than there is for it."

WAIT_SECONDS = 2.0
"""How long a file waits for its turn to be read, while its thread could serve others."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What reading a file may take: time, memory as address space, one of the places of this machine."""

    seconds: float
    memory_bytes: int
    at_once: int
    uploads: Path


@dataclass(frozen=True, slots=True)
class LayerJob:
    """GeoJSON to compile; lines may have speeds, points a property that they are weighed by.

    With `sizing` the sides of its blocks are measured, too.
    """

    kind: geojson.Kind
    geometry: Path
    speeds: Path | None
    limits: geojson.Limits
    weight: str | None = None
    sizing: Sizing | None = None

    def run(self) -> CompiledLayer:
        given = self.speeds.read_bytes() if self.speeds else None
        compiled = compile_layer(self.kind, self.geometry.read_bytes(), given, self.limits, weight=self.weight)
        return self.sizing.size(compiled, time.process_time) if self.sizing else compiled


@dataclass(frozen=True, slots=True)
class SpeedsJob:
    """Speeds to compile for a geometry that is compiled already."""

    compiled_geometry: Path
    speeds: Path
    limits: geojson.Limits

    def run(self) -> CompiledSpeeds:
        return compile_speeds(self.compiled_geometry.read_bytes(), self.speeds.read_bytes(), self.limits)


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Speeds of some segments to compile for a geometry that is compiled already."""

    compiled_geometry: Path
    speeds: Path
    form: Form
    limits: geojson.Limits

    def run(self) -> Patch:
        return read_patch(self.compiled_geometry.read_bytes(), self.speeds.read_bytes(), self.form, self.limits)


@dataclass(frozen=True, slots=True)
class SizingJob:
    """A layer that is compiled already, for its blocks to be measured."""

    compiled: CompiledLayer
    sizing: Sizing

    def run(self) -> CompiledLayer:
        return self.sizing.size(self.compiled, time.process_time)


@dataclass(frozen=True, slots=True)
class MarkJob:
    """Speeds before and after, for the tiles to be found that look different."""

    compiled_geometry: Path
    before: bytes | None
    after: bytes
    look: changing.Look

    def run(self) -> Touched | None:
        before = None if self.before is None else speeds.read_speeds(self.before)
        after = speeds.read_speeds(self.after)
        return changing.touched_by_speeds(self.compiled_geometry.read_bytes(), before, after, self.look)


@dataclass(frozen=True, slots=True)
class DataMarkJob:
    """A layer's data before and after, for the same."""

    kind: geojson.Kind
    before: shapes.Data
    after: shapes.Data
    look: changing.Look

    def run(self) -> Touched | None:
        return shapes.touched_by_data(self.kind, self.before, self.after, self.look)


Job: TypeAlias = LayerJob | SpeedsJob | PatchJob | SizingJob | MarkJob | DataMarkJob


def compile_layer_apart(job: LayerJob, allowance: Allowance) -> CompiledLayer:
    """The layer, compiled in another process. Raises LayerError, also when that takes too long."""
    check_file(job.geometry, job.limits)
    if job.speeds:
        check_file(job.speeds, job.limits, SpeedsError)
    return cast("CompiledLayer", run_apart(job, allowance))


def compile_speeds_apart(job: SpeedsJob, allowance: Allowance) -> CompiledSpeeds:
    """The speeds, compiled in another process. Raises SpeedsError."""
    check_file(job.speeds, job.limits, SpeedsError)
    return cast("CompiledSpeeds", run_apart(job, allowance))


def read_patch_apart(job: PatchJob, allowance: Allowance) -> Patch:
    """The new speeds, read in another process. Raises SpeedsError, and LayerError when that takes too long."""
    check_file(job.speeds, job.limits, SpeedsError)
    return cast("Patch", run_apart(job, allowance))


def size_apart(job: SizingJob, allowance: Allowance) -> CompiledLayer:
    """The layer with the sides of its blocks, measured in another process. Raises LayerError."""
    return cast("CompiledLayer", run_apart(job, allowance))


def mark_apart(job: MarkJob | DataMarkJob, allowance: Allowance) -> Touched | None:
    """The tiles that look different, found in another process; None for all. Raises LayerError."""
    return cast("Touched | None", run_apart(job, allowance))


def check_file(path: Path, limits: geojson.Limits, error: Callable[[str], LayerError] = LayerError) -> None:
    """Raises the error for a file that is missing, too big or empty. Does not read it."""
    if path.is_dir():
        raise error("This is a directory, not a file.")
    try:
        geojson.check_size(path.stat().st_size, limits)
    except OSError as reason:
        raise error(f"The file cannot be read: {reason.strerror}.") from reason
    except LayerError as reason:
        raise error(str(reason)) from reason


def run_apart(job: Job, allowance: Allowance) -> object:
    """What the job answers, run in another process. Raises LayerError, and BusyError when others have all places."""
    with uploads.turn(allowance.uploads, allowance.at_once, WAIT_SECONDS), uploads.folder(allowance.uploads) as folder:
        (folder / "job").write_bytes(pickle.dumps(job))
        limits = (str(allowance.memory_bytes), str(math.ceil(allowance.seconds)), str(os.getpid()))
        command = [sys.executable, "-m", "resources.tiles.keeping.apart", str(folder), *limits]
        too_long = f"The data took longer than {allowance.seconds:.0f} seconds to read."
        try:
            ended = subprocess.run(command, cwd=ROOT, timeout=allowance.seconds, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as error:
            raise LayerError(too_long) from error
        if ended.returncode == -signal.SIGXCPU:
            raise LayerError(too_long)
        if ended.returncode != 0:
            raise LayerError(TOO_LARGE if ended.returncode < 0 else BROKEN)
        outcome = pickle.loads((folder / "outcome").read_bytes())  # noqa: S301  # our own child wrote it
    if isinstance(outcome, LayerError):
        raise outcome
    return outcome


def _main(folder: Path, memory_bytes: int, cpu_seconds: int, parent: int) -> None:
    """Runs the job, within limits that are set first: else the system would end some other process for memory."""
    end_with(parent)  # elsewhere than on Linux the limits do
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_CPU, cpu_seconds)
    try:
        outcome = _outcome((folder / "job").read_bytes())
    except MemoryError:
        outcome = pickle.dumps(LayerError(TOO_LARGE))
    (folder / "outcome").write_bytes(outcome)


def _limit(what: int, amount: int) -> None:
    _, most = resource.getrlimit(what)
    limit = amount if most == resource.RLIM_INFINITY else min(amount, most)
    resource.setrlimit(what, (limit, most))


def _outcome(pickled: bytes) -> bytes:
    job: Job = pickle.loads(pickled)  # noqa: S301  # our parent wrote it
    try:
        return pickle.dumps(job.run())
    except LayerError as error:
        return pickle.dumps(error)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
