"""The origins of `corpus`, as their caller sees them: their addresses, and their log."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .secret_origins import python_module


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as an origin saw it: Unix seconds, bytes of the body that were taken off its hands.

    `path` begins with the host and ends before the query. `at_once` requests for it were open then, this one included.
    """

    method: str
    path: str
    began: float
    ended: float
    at_once: int
    status: int
    sent: int


class Corpus:
    """Started by `running`."""

    def __init__(self, log: Path, hosts: Sequence[str], port: str) -> None:
        self._log = log
        self._port = port
        self._hosts = [f"{host}:{port}" for host in hosts]

    def url(self, host: int, path: str) -> str:
        """The path at that host, counted round."""
        return f"http://{self._hosts[host % len(self._hosts)]}{path}"

    def url_of(self, path: str) -> str:
        """The URL of a path that begins with its host."""
        host, _, rest = path.partition("/")
        return f"http://{host}:{self._port}/{rest}"

    def asked(self) -> list[Asked]:
        """All requests so far that have ended."""
        if not self._log.exists():
            return []
        *lines, _ = self._log.read_text().split("\n")
        return [Asked(**json.loads(line)) for line in lines]


@contextmanager
def running(log: Path, hosts: Sequence[str], seconds: float, delay: float = 0) -> Iterator[Corpus]:
    """Origins at these loopback addresses, for so long at the most. Their answers take up to `delay` seconds."""
    process = python_module("tests.hostile.corpus", str(log), str(seconds), str(delay), *hosts)
    try:
        assert process.stdout
        yield Corpus(log, hosts, process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()
