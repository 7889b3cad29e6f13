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

    def feed(self, urls: Sequence[str]) -> set[str]:
        """Returns when they wait for a fetcher: those that were not taken, as by a Redis that does not answer soon."""
        return self._tell(list(urls))

    def limit(self, scope: str, **limits: float) -> None:
        """Sets limits of a domain as an admin does, by the names that they have in the database."""
        self._tell({"scope": scope, **limits})

    def _tell(self, what: object) -> set[str]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return set(json.loads(self._process.stdout.readline()))
