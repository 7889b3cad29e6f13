"""The origins of `secrets`, as their caller sees them: their addresses, and their log."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from .secrets import NETWORK

ROOT = Path(__file__).resolve().parent.parent.parent
Limits = Mapping[str, float]
NICENESS = -5
"""They measure: requests that they are too late to read one by one look like haste."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as an origin saw it. `at` is when it came, in Unix seconds; `at_once` counts it too."""

    domain: int
    path: str
    at: float
    served: bool
    at_once: int
    early: bool
    """It came while the origin wanted to be left alone, and had said so a while ago."""


def python_module(*command: str) -> subprocess.Popen[str]:
    """A process of its own, with pipes; it does not outlive this one."""
    argv = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", *command]
    return subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class SecretOrigins:
    """Started by `running`. Domains count from 1."""

    def __init__(self, log: Path, limits: Sequence[Limits], seconds: float) -> None:
        self._log = log
        self._process = python_module("tests.hostile.secrets", str(log), str(seconds))
        with suppress(psutil.AccessDenied):
            psutil.Process(self._process.pid).nice(NICENESS)
        self._say("".join(json.dumps(dict(each)) + "\n" for each in limits))
        assert self._process.stdout
        self._port = self._process.stdout.readline().strip()

    def host(self, domain: int) -> str:
        """The domain's name for fetchers: its limits count under it."""
        return f"{NETWORK}{domain}:{self._port}"

    def url(self, domain: int, page: object) -> str:
        return f"http://{self.host(domain)}/{page}"

    def change(self, domain: int, limits: Limits) -> None:
        """From now on these are the domain's limits, beside those that are not named."""
        self._say(json.dumps([domain, dict(limits)]))

    def asked(self) -> list[Asked]:
        """All requests so far."""
        return [Asked(**json.loads(line)) for line in self._log.read_text().splitlines()]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _say(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


@contextmanager
def running(log: Path, limits: Sequence[Limits], seconds: float) -> Iterator[SecretOrigins]:
    """One origin for each of the limits, for so long at the most. Their log goes to that file."""
    origins = SecretOrigins(log, limits, seconds)
    try:
        yield origins
    finally:
        origins.end()
