"""Compiles in a process of its own: parsing a large file would hold the web process' GIL for seconds.

The child imports nothing of Django. `python -m resources.tiles.keeping.apart FOLDER BYTES` is its side.
"""

import pickle
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from ..errors import LayerError, SpeedsError
from ..reading import geojson
from ..reading.compiling import CompiledLayer, CompiledSpeeds, compile_layer, compile_speeds
from ..reading.patching import Form, Patch, read_patch
from ..sizing.sides import Sizing

ROOT = Path(__file__).resolve().parents[3]
BROKEN = "The file could not be read, by a fault of this site: its log has the reason."
TOO_LARGE = "The file is too large for this machine: reading it takes more memory than there is for it."


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
        speeds = self.speeds.read_bytes() if self.speeds else None
        compiled = compile_layer(self.kind, self.geometry.read_bytes(), speeds, self.limits, weight=self.weight)
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


Job: TypeAlias = LayerJob | SpeedsJob | PatchJob | SizingJob


def compile_layer_apart(job: LayerJob, timeout_seconds: float, memory_bytes: int) -> CompiledLayer:
    """The layer, compiled in another process. Raises LayerError, also when that takes too long."""
    check_file(job.geometry, job.limits)
    if job.speeds:
        check_file(job.speeds, job.limits, SpeedsError)
    return cast("CompiledLayer", _run_apart(job, timeout_seconds, memory_bytes))


def compile_speeds_apart(job: SpeedsJob, timeout_seconds: float, memory_bytes: int) -> CompiledSpeeds:
    """The speeds, compiled in another process. Raises SpeedsError."""
    check_file(job.speeds, job.limits, SpeedsError)
    return cast("CompiledSpeeds", _run_apart(job, timeout_seconds, memory_bytes))


def read_patch_apart(job: PatchJob, timeout_seconds: float, memory_bytes: int) -> Patch:
    """The new speeds, read in another process. Raises SpeedsError, and LayerError when that takes too long."""
    check_file(job.speeds, job.limits, SpeedsError)
    return cast("Patch", _run_apart(job, timeout_seconds, memory_bytes))


def size_apart(job: SizingJob, timeout_seconds: float, memory_bytes: int) -> CompiledLayer:
    """The layer with the sides of its blocks, measured in another process. Raises LayerError."""
    return cast("CompiledLayer", _run_apart(job, timeout_seconds, memory_bytes))


def check_file(path: Path, limits: geojson.Limits, error: Callable[[str], LayerError] = LayerError) -> None:
    """Raises the error for a file that is missing, too big or empty. Does not read it."""
    try:
        geojson.check_size(path.stat().st_size, limits)
    except OSError as reason:
        raise error(f"The file cannot be read: {reason.strerror}.") from reason
    except LayerError as reason:
        raise error(str(reason)) from reason


def _run_apart(job: Job, timeout_seconds: float, memory_bytes: int) -> object:
    with tempfile.TemporaryDirectory(prefix="layer-") as name:
        folder = Path(name)
        (folder / "job").write_bytes(pickle.dumps(job))
        command = [sys.executable, "-m", "resources.tiles.keeping.apart", str(folder), str(memory_bytes)]
        try:
            ended = subprocess.run(command, cwd=ROOT, timeout=timeout_seconds, check=False, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as error:
            raise LayerError(f"The data took longer than {timeout_seconds:.0f} seconds to read.") from error
        if ended.returncode != 0:
            raise LayerError(TOO_LARGE if ended.returncode < 0 else BROKEN)
        outcome = pickle.loads((folder / "outcome").read_bytes())  # noqa: S301  # our own child wrote it
    if isinstance(outcome, LayerError):
        raise outcome
    return outcome


def _main(folder: Path, memory_bytes: int) -> None:
    """Runs the job. Sets the limit first: without it the system would end some other process for memory."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        outcome = _outcome((folder / "job").read_bytes())
    except MemoryError:
        outcome = pickle.dumps(LayerError(TOO_LARGE))
    (folder / "outcome").write_bytes(outcome)


def _outcome(pickled: bytes) -> bytes:
    job: Job = pickle.loads(pickled)  # noqa: S301  # our parent wrote it
    try:
        return pickle.dumps(job.run())
    except LayerError as error:
        return pickle.dumps(error)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
