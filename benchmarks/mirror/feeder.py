"""Work for fetchers, put into a site's queues by a process of its own."""

import json
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.support.stack import ROOT, Stack


class SiteProcess:
    """Use it as `with SiteProcess(stack, module) as process`: a module of ours, run in the site's environment.

    It reads and writes lines of JSON.
    """

    def __init__(self, stack: Stack, module: str, *arguments: str) -> None:
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=stack.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # it ends with its input

    def tell(self, what: object) -> Any:
        """Sends a line, waits for the answer and returns it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


class Feeder(SiteProcess):
    """Runs `benchmarks.mirror.wanted` in the site's environment."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, "benchmarks.mirror.wanted")

    def feed(self, urls: Sequence[str]) -> set[str]:
        """Returns the refused URLs, once all others wait for a fetcher. A slow Redis refuses some."""
        return set(self.tell(list(urls)))

    def limit(self, scope: str, **limits: float) -> None:
        """Sets limits of a domain as an admin does, by the names that they have in the database."""
        self.tell({"scope": scope, **limits})
