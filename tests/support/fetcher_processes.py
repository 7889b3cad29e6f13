"""Further fetchers of a stack, beside its own."""

import subprocess
import sys
from types import TracebackType
from typing import Self

from project.processes import WORKER_ENVIRONMENT

from .stack import ROOT, Stack


class FurtherFetcher:
    """One more `manage.py fetch`, with further settings. `with FurtherFetcher(stack)`; it is killed at the end."""

    def __init__(self, stack: Stack, **settings: str) -> None:
        self._stack = stack
        self._settings = settings
        self._process = self._started()
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over:
            self._end()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill_for_good(self) -> None:
        """SIGKILL. No other one takes its place."""
        self._process.kill()
        self._process.wait()
        self._is_over = True

    def kill(self) -> None:
        """SIGKILL. Another one takes its place."""
        self._end()
        self._process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "manage.py", "fetch", "--skip-checks"]
        with (self._stack.data / "logs" / "further-fetchers.log").open("ab") as log:
            environment = {**self._stack.environment, **WORKER_ENVIRONMENT, **self._settings}
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def _end(self) -> None:
        """Fails when it has ended by itself: a test with fewer fetchers than it says shows nothing."""
        ended = self._process.poll()
        self._process.kill()
        self._process.wait()
        assert ended is None, f"a further fetcher ended by itself ({ended}); further-fetchers.log says why"
