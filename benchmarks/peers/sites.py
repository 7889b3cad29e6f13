"""A site for comparisons: its address, cached addresses of it, and addresses that were never requested."""

import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from uuid import uuid4

from tests.flows.slow.events import Diary
from tests.support.processes import kill_family
from tests.support.stack import ROOT, eventually

START_SECONDS = 30
SIZE = 8000
"""Bytes of cold content."""


@dataclass(frozen=True, slots=True)
class Content:
    """`name` is the name under which its preparations are noted."""

    path: str
    name: str


def slow_content(seconds: float) -> Content:
    """A picture that was never requested, of so many seconds."""
    name = uuid4().hex
    return Content(f"/slow/{name}?seconds={seconds}&size={SIZE}&kind=slow&behaviour=picture", name)


@dataclass(frozen=True, slots=True)
class Site:
    """Started by one of the modules beside this one. `cached` is the path of content that is asked for often."""

    host: str
    cached: str
    notes: Path
    cold: Callable[[float], Content] = slow_content

    def preparations(self, content: Content) -> int:
        """The number of its beginnings, by the preparer's own count."""
        return Diary(self.notes, content.name).count("start")

    def get(self, path: str) -> bytes:
        """Raises OSError."""
        with urllib.request.urlopen(f"http://{self.host}{path}", timeout=60) as answer:
            body: bytes = answer.read()
            return body

    def wait_for_cached(self) -> None:
        """Returns when it answers, and has its cached content. Raises AssertionError when it does not in time."""
        eventually(self._answers, START_SECONDS, f"{self.host} answers")

    def _answers(self) -> bool:
        try:
            return all(self.get(self.cached) for _ in range(2))
        except (OSError, HTTPException):
            return False


Starting = Callable[[Path, bytes], AbstractContextManager[Site]]
"""Starts a site in an empty folder, with a file for its tiles. It ends with the context. Raises MissingError."""


@contextmanager
def process(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """Its pid. It ends with the context, and with the process that started it."""
    with log.open("w") as output:
        started = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command], cwd=ROOT, env=environment, stdout=output, stderr=output
        )
        try:
            yield started.pid
        finally:
            kill_family(started)


def last_words(folder: Path) -> str:
    """The last line of each log in a site's folder, with the log's name."""
    logs = {log.name: log.read_text(errors="replace").strip() for log in sorted(folder.glob("*.log"))}
    return "; ".join(f"{name}: {said.rpartition(chr(10))[-1]}" for name, said in logs.items() if said)
