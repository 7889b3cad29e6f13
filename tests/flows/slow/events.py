"""Events of slow content, and the gates that hold it up: files, so that no fault of Redis touches them."""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GATE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Diary:
    """The events and the gate of the content of one name."""

    directory: Path
    name: str

    def note(self, event: str, token: int) -> int:
        """Appends an event; returns how many of this kind there are now."""
        self.directory.mkdir(exist_ok=True)
        entry = {"event": event, "token": token, "pid": os.getpid(), "time": time.time()}
        with self._events.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(entry) + "\n")
            file.flush()
            return self.count(event)

    def entries(self) -> list[dict[str, Any]]:
        try:
            return [json.loads(line) for line in self._events.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def count(self, event: str) -> int:
        return sum(entry["event"] == event for entry in self.entries())

    def open_gate(self) -> None:
        self.directory.mkdir(exist_ok=True)
        self._gate.touch()

    def wait_at_gate(self) -> None:
        """Returns once the gate is open. Raises TimeoutError after a minute."""
        deadline = time.monotonic() + GATE_SECONDS
        while not self._gate.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("nobody opened the gate")
            time.sleep(0.05)

    @property
    def _events(self) -> Path:
        return self.directory / f"{self.name}.events"

    @property
    def _gate(self) -> Path:
        return self.directory / f"{self.name}.gate"
