"""Programs that run at a place of the network until they are ended: one process each, with a log."""

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from ..support.processes import kill_family
from .network import Place

START_SECONDS = 30


class Server:
    """A program that is killed with the process that started it. `is_ready` tells whether it serves."""

    def __init__(
        self,
        place: Place,
        command: Sequence[str],
        log: Path,
        is_ready: Callable[[], bool],
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.place, self.log = place, log
        self._command, self._is_ready, self._environment = command, is_ready, environment
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it and waits until it serves. Raises RuntimeError with its log when it does not."""
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.place.prefix, *self._command], stdout=output, stderr=output, cwd="/tmp", env=self._environment
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self._command} did not start:\n{self.log.read_text(errors='replace')}")
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 30) -> None:
        """Asks it to end, and waits until it has."""
        assert self.process
        self.process.send_signal(number)
        self.process.wait(seconds)
        self.process = None

    def kill(self) -> None:
        if self.process is not None:
            kill_family(self.process)
            self.process = None


def accepts(address: str, port: int) -> bool:
    """Tells whether something accepts connections there."""
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


class RedisNode(Server):
    """A redis-server at an address: by the given options, or one for which `configuration` is a file."""

    def __init__(self, place: Place, directory: Path, port: int, *options: str, configuration: str = "") -> None:
        self.port = port
        self.address = f"{place.address}:{port}"
        self.client = redis.Redis(place.address, port, socket_timeout=5)
        directory.mkdir(parents=True, exist_ok=True)
        at = ("--bind", place.address, "--port", str(port), "--bind-source-addr", place.address)  # on loopback, too
        named = (*at, "--protected-mode", "no", "--dir", str(directory))
        given: tuple[str, ...] = (*named, "--save", "", *options)
        if configuration:  # the server writes to it
            file = directory / "redis.conf"
            file.write_text(configuration)
            given = (str(file), *named, *options)
        super().__init__(
            place, ["setpriv", "--pdeathsig", "KILL", "redis-server", *given], directory / "log", self._answers
        )

    def kill(self) -> None:
        super().kill()
        self.client.close()

    def execute(self, command: str, *arguments: str) -> Any:
        """Executes a command for which the client has no typed method."""
        return self.client.execute_command(command, *arguments)  # type: ignore[no-untyped-call]

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.RedisError:
            return False
