"""What a machine that fetches does beside: uploads what it holds, and removes what it need not hold any more."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

from django.conf import settings
from django.db import Error as DatabaseError

from resources import folders
from resources.threads import usable_connections
from retry.errors import StoreUnavailable

from ..errors import StorageError
from . import blobs, sweeping
from .uploading import Uploader

WAIT_SECONDS = 1.0
SWEEP_SECONDS, SPOOL_SECONDS = 60.0, 600.0
PAUSE_SECONDS = 5.0
END_SECONDS = 5.0

_log = logging.getLogger("tarry.mirroring")


@dataclass(slots=True)
class Turn:
    """Something that is done now and then."""

    every_seconds: float
    do: Callable[[], object]
    due: float = field(default_factory=time.monotonic)

    def take(self) -> None:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + self.every_seconds
            self.do()


class Tender(Thread):
    """In a thread of its own, which ends with the process. Killed at any moment, it is done again by the next."""

    def __init__(self) -> None:
        super().__init__(name="tender", daemon=True)
        self._ended = Event()
        self._turns = [Turn(SPOOL_SECONDS, _sweep_spool)]
        self._uploader: Uploader | None = None
        if blobs.is_elsewhere():
            self._uploader = Uploader()
            self._turns.append(Turn(SWEEP_SECONDS, _sweep_held))

    def end(self) -> None:
        """Uploads that are not finished by then are begun anew by the next process."""
        self._ended.set()
        if self._uploader is not None:
            self._uploader.close()
        self.join(END_SECONDS)

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with usable_connections():
                    self._tend()
            except (DatabaseError, StorageError, StoreUnavailable) as error:
                _log.warning("nothing can be uploaded or swept", extra={"error": str(error)})
                self._ended.wait(PAUSE_SECONDS)
            except Exception:  # noqa: BLE001  a thread's edge: it must go on
                if not self._ended.is_set():
                    _log.exception("uploading or sweeping failed")
                self._ended.wait(PAUSE_SECONDS)

    def _tend(self) -> None:
        for turn in self._turns:
            turn.take()
        if self._uploader is not None:
            self._uploader.run_once(WAIT_SECONDS)
        else:
            self._ended.wait(PAUSE_SECONDS)


def _sweep_held() -> None:
    sweeping.sweep_held(datetime.now(UTC))


def _sweep_spool() -> None:
    directory = Path(settings.FETCH_SPOOL_DIRECTORY)
    if directory.is_dir():
        folders.remove_left_behind(directory)
