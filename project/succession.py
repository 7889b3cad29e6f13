"""After a HUP the old workers of main go on answering until a new one can.

By itself gunicorn ends them as soon as the new ones are born, and for as long as those load the application nobody
answers: a second or two, or more than the front waits where the machine has other things to do.
"""

import mmap
import struct
import time
from pathlib import Path
from types import FrameType
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

PATIENCE_SECONDS = 60.0
"""A worker that is told to end, and has no successor by then, ends all the same."""

_AGE = struct.Struct("q")
_youngest = mmap.mmap(-1, _AGE.size)
"""The age, as gunicorn counts, of the youngest worker that answers. The master's and all its workers'."""


def answers(worker: Any) -> None:
    """Notes that this worker has loaded the application."""
    _youngest[:] = _AGE.pack(max(worker.age, _age_of_youngest()))


def _age_of_youngest() -> int:
    return int(_AGE.unpack(_youngest[:])[0])


class SucceededWorker(ThreadWorker):  # type: ignore[misc]  # an untyped library
    """Told to end, it waits for a successor, unless the whole instance ends. gunicorn tells it again each second."""

    _told_at: float | None = None
    _successor = 0
    """The age of the worker that takes its place. Those that are told together go one by one, the oldest first."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._told_at is None:
            self._told_at, youngest = time.monotonic(), _age_of_youngest()
            self._successor = youngest + max(1, self.age - youngest + self.cfg.workers)
        if self._may_end():
            super().handle_exit(sig, frame)

    def notify(self) -> None:
        super().notify()
        if self.alive and self._told_at is not None and self._may_end():
            super().handle_exit(0, None)

    def _may_end(self) -> bool:
        assert self._told_at is not None
        has_successor = _age_of_youngest() >= self._successor
        return has_successor or not self._is_reached() or time.monotonic() - self._told_at > PATIENCE_SECONDS

    def _is_reached(self) -> bool:
        """Whether anybody can still come: gunicorn removes its sockets before it ends all workers."""
        names = [listening.getsockname() for listening in self.sockets]
        return any(isinstance(name, str) and Path(name).exists() for name in names)
