"""Work for fetchers, put into a site's queues by a process of its own."""

import json
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.flows.stack import ROOT, Stack


class Feeder:
    """Use it as `with Feeder(stack) as feeder`: benchmarks/wanting.py in the site's environment."""

    def __init__(self, stack: Stack) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "benchmarks.wanting"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=stack.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # it ends with its input

    def feed(self, urls: Sequence[str]) -> None:
        """Returns when all of them wait for a fetcher. Raises RuntimeError when there was no room for some."""
        if (taken := self._tell(list(urls))) != len(urls):
            raise RuntimeError(f"{taken} of {len(urls)} pages were taken")

    def let_in_flight(self, scope: str, most: int) -> None:
        """Sets how many requests may be in flight at a domain, as an admin does."""
        self._tell([scope, most])

    def _tell(self, what: object) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline() or -1)
