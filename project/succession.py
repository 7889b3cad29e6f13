"""Main's worker class: after a HUP the old workers go on answering until a new one can.

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
    youngest = max(worker.age, _AGE.unpack(_youngest[:])[0])
    _youngest[:] = _AGE.pack(youngest)


class SucceededWorker(ThreadWorker):  # type: ignore[misc]  # an untyped library
    """Told to end, it waits for a successor, unless the whole instance ends. gunicorn tells it again each second."""

    _told_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._told_at = self._told_at or time.monotonic()
        if self._may_end():
            super().handle_exit(sig, frame)

    def notify(self) -> None:
        super().notify()
        if self.alive and self._told_at and self._may_end():
            super().handle_exit(0, None)

    def _may_end(self) -> bool:
        assert self._told_at is not None
        has_successor = _AGE.unpack(_youngest[:])[0] > self.age
        return has_successor or not self._is_reached() or time.monotonic() - self._told_at > PATIENCE_SECONDS

    def _is_reached(self) -> bool:
        """Whether anybody can still come: gunicorn removes its sockets before it ends all workers."""
        names = [listening.getsockname() for listening in self.sockets]
        return any(isinstance(name, str) and Path(name).exists() for name in names)
