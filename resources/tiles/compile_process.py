"""Compiles in a child process: parsing a large file would hold the web process' GIL for seconds.

The child imports nothing of Django. `python -m resources.tiles.compile_process FOLDER BYTES PARENT SECONDS` is its
side (resources/sandbox.py).

Folders of uploads, and the turns that limit how many files are read at a time, are held by locks, which end
with their process.
"""

import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from .. import folders, sandbox
from ..sandbox import ChildAllowance, ChildTimeoutError
from .data import compiler, geojson
from .data.compiler import CompiledLayer
from .data.limits import LayerLimits
from .errors import LayerBusyError, LayerError, SpeedsError
from .metatiles import MetatileSizing

CHILD_FAILED = "The file could not be read, by a fault of this site: its log has the reason."
TOO_LARGE = "The file is too large for this machine: reading it takes more memory than there is for it."
TURN_WAIT_SECONDS = 2.0
"""Time that a file waits for its turn to be read, while its thread could serve other requests."""
TURN_PAUSE_SECONDS = 0.05
DJANGO_UPLOADS = "*.upload*"
"""Files that Django has made there itself. Their names end like those of the uploads."""
LEFT_UPLOAD_SECONDS = 3600.0
"""Django's files have no lock: at this age they belong to a killed process."""


@contextmanager
def upload_folder(directory: Path) -> Iterator[Path]:
    """Makes a folder for the caller, removed at the end. Also removes the leftovers of killed processes."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in directory.glob(DJANGO_UPLOADS):
        with suppress(FileNotFoundError):  # another process removes it too
            if path.stat().st_mtime < time.time() - LEFT_UPLOAD_SECONDS:
                path.unlink()
    with folders.hold_folder(directory) as held:
        yield held


@contextmanager
def take_upload_turn(directory: Path, at_once: int, wait_seconds: float) -> Iterator[None]:
    """Waits for one of the `at_once` places of this machine. Raises LayerBusyError when none becomes free."""
    until = time.monotonic() + wait_seconds
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        for number in range(at_once):
            with folders.open_descriptor(directory / f"turn-{number}", os.O_RDWR | os.O_CREAT) as descriptor:
                if folders.try_file_lock(descriptor):
                    yield
                    return
        if time.monotonic() > until:
            raise LayerBusyError(
                "This site is reading as many files as it can already. Send this one again in a moment."
            )
        time.sleep(TURN_PAUSE_SECONDS)


@dataclass(frozen=True, slots=True)
class CompileAllowance:
    """Limits of reading a file: time, memory as address space, the number of files at a time on this machine."""

    seconds: float
    memory_bytes: int
    at_once: int
    uploads: Path


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class CompileLayerJob:
    """Compiles GeoJSON; lines may have speeds, points a property that they are weighed by.

    With `sizing` also measures the sides of its metatiles.
    """

    kind: geojson.LayerKind
    geometry: Path
    speeds: Path | None
    limits: LayerLimits
    weight: str | None = None
    sizing: MetatileSizing | None = None

    def run(self) -> CompiledLayer:
        given = self.speeds.read_bytes() if self.speeds else None
        compiled = compiler.compile_layer(self.kind, self.geometry.read_bytes(), given, self.limits, weight=self.weight)
        return self.sizing.size(compiled, time.process_time) if self.sizing else compiled


def compile_layer_in_child(job: CompileLayerJob, allowance: CompileAllowance) -> CompiledLayer:
    """Compiles the layer in a child process. Raises LayerError, also when that takes too long."""
    check_file(job.geometry, job.limits)
    if job.speeds:
        check_file(job.speeds, job.limits, SpeedsError)
    return run_in_child(job.run, allowance)


def read_speeds_in_child(read: Callable[[bytes], Result], path: Path, allowance: CompileAllowance) -> Result:
    """Reads a file of speeds in a child process. Raises SpeedsError, and LayerError when that takes too long."""
    return run_in_child(partial(_read_file, read, path), allowance)


def _read_file(read: Callable[[bytes], Result], path: Path) -> Result:
    return read(path.read_bytes())


def check_file(path: Path, limits: LayerLimits, error: Callable[[str], LayerError] = LayerError) -> None:
    """Raises the error for a file that is missing, too big or empty. Does not read it."""
    if path.is_dir():
        raise error("This is a directory, not a file.")
    try:
        geojson.check_file_size(path.stat().st_size, limits)
    except OSError as reason:
        raise error(f"The file cannot be read: {reason.strerror}.") from reason
    except LayerError as reason:
        raise error(str(reason)) from reason


def run_in_child(job: Callable[[], Result], allowance: CompileAllowance) -> Result:
    """Calls the job in a child process. It is pickled: it carries its data, or names files.

    Returns its result. Raises LayerError; LayerBusyError if no place is free.
    """
    with (
        take_upload_turn(allowance.uploads, allowance.at_once, TURN_WAIT_SECONDS),
        upload_folder(allowance.uploads) as folder,
    ):
        (folder / "job").write_bytes(pickle.dumps(job))
        limits = ChildAllowance(allowance.memory_bytes, allowance.seconds)
        try:
            status = sandbox.run_child("resources.tiles.compile_process", str(folder), allowance=limits)
        except ChildTimeoutError as error:
            raise LayerError(f"The data took longer than {allowance.seconds:.0f} seconds to read.") from error
        if status != 0:
            raise LayerError(TOO_LARGE if status < 0 else CHILD_FAILED)
        outcome: Result | LayerError = pickle.loads((folder / "outcome").read_bytes())  # noqa: S301  # our own child wrote it
    if isinstance(outcome, LayerError):
        raise outcome
    return outcome


def _main(folder: Path) -> None:
    try:
        job: Callable[[], object] = pickle.loads((folder / "job").read_bytes())  # noqa: S301  # our parent wrote it
        outcome = pickle.dumps(job())
    except LayerError as error:
        outcome = pickle.dumps(error)
    except MemoryError:
        outcome = pickle.dumps(LayerError(TOO_LARGE))
    (folder / "outcome").write_bytes(outcome)


if __name__ == "__main__":
    sandbox.limit_child(*map(int, sys.argv[2:]))  # first: else the system might end another process to free memory
    _main(Path(sys.argv[1]))
