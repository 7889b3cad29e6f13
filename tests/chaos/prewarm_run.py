"""Pre-warming beside the steady client: a run of `manage.py prewarm`, as an operator leaves it running."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from ..support.stack import ROOT, Stack, eventually

LAYER = ("prewarm", "--layer", "line")
TILES_A_SECOND = 8
AGAIN_SECONDS = 20
# Zooms without the client's cold tiles, which must stay cold.
MEANWHILE = (*LAYER, "--zoom", "0-13", "--rate", str(TILES_A_SECOND), "--every", str(AGAIN_SECONDS))
AFTERWARDS = (*LAYER, "--zoom", "14", "--bbox=60,0,60.2,0.2")
"""An area that no client has requested."""
TILES = "retry:content:tile:line:*"
BEGUN_SECONDS, STOPPED_SECONDS = 60, 20
SHOWN = 300

_PREPARED = re.compile(r"([\d,]+) pieces prepared")


class Prewarming:
    """The run, begun before the first request. It never ends by itself, only with the process that started it."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._process: subprocess.Popen[str] | None = None
        self._ended_itself = False
        self._said = ""

    def __enter__(self) -> Self:
        command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "manage.py", *MEANWHILE]
        environment = {**self._stack.environment, "PUBLIC_URL": self._stack.base_url}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            eventually(lambda: any(self._stack.cache.scan_iter(TILES)), BEGUN_SECONDS, "tiles are pre-warmed")
        except AssertionError:
            self.leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Stops the run. Waits some seconds for its running pieces."""
        if self._process is None:
            return
        process, self._process = self._process, None
        self._ended_itself = process.poll() is not None
        process.send_signal(signal.SIGTERM)
        try:
            self._said = process.communicate(timeout=STOPPED_SECONDS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            self._said = process.communicate()[0]

    def violations(self) -> Iterator[str]:
        """The violations of the run after `leave`, and of another run afterwards."""
        yield from of_output(self._said, ended_itself=self._ended_itself)
        try:
            said = self._stack.manage(*AFTERWARDS)
        except RuntimeError as error:
            yield f"pre-warming fails afterwards: {str(error)[-SHOWN:]}"
        else:
            yield from (f"afterwards {one}" for one in of_output(said))


def of_output(said: str, *, ended_itself: bool = False) -> Iterator[str]:
    if ended_itself:
        yield f"pre-warming ended by itself: {said[-SHOWN:]}"
    elif not sum(int(number.replace(",", "")) for number in _PREPARED.findall(said)):
        yield f"nothing was pre-warmed: {said[-SHOWN:]}"
