"""The hosts of `publishers`, as their caller sees them: the addresses of their feeds, and their log."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from feeds.schedule.order import PlannedFetch
from tests.support.stack import ROOT

from .publishers import address


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as a host saw it; Unix seconds."""

    feed: int
    began: float
    ended: float
    status: int


@dataclass(frozen=True, slots=True)
class Publishing:
    """Started by `running`. `urls` are in the order of the feeds."""

    urls: Sequence[str]
    _log: Path

    def asked(self, since: float = 0.0) -> list[Asked]:
        """All requests that have been answered, of those that came since then."""
        every = (Asked(**json.loads(line)) for line in self._log.read_text().splitlines())
        return [one for one in every if one.began >= since]


@contextmanager
def running(log: Path, feeds: Sequence[PlannedFetch], limit: int = 4) -> Iterator[Publishing]:
    """A process of its own with these feeds, each at its host; their answers take as long as they say.

    A host has `limit` requests in hand at once, or any number if that is 0, and refuses more.
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(each.host for each in feeds))}
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "benchmarks.fetch.publishers"]
    command += [str(log), str(limit)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write("".join(json.dumps([names[each.host], each.seconds]) + "\n" for each in feeds) + "\n")
        process.stdin.flush()
        port = int(process.stdout.readline())
        yield Publishing([f"http://{address(names[each.host])}:{port}/{n}" for n, each in enumerate(feeds)], log)
    finally:
        process.kill()
        process.communicate()
