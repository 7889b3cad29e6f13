"""A real nginx with the site's configuration in front of origins that tests steer.

Tests share a running front per configuration. Each test has a host of its own, which its cached answers are kept under.
"""

import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import Any

import pytest

from project import nginx_config, preflight
from project.nginx_config import FrontConfig
from project.paths import DataDirectory, RuntimeDirectory
from project.preflight import FileLimits

from ..support.stack import START_SECONDS, free_port
from .origin import Origin


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def cached(self) -> bool:
        return "nginx; hit" in ", ".join(self.headers.get_all("Cache-Status", []))


class RawConnection(HTTPConnection):
    """Sends request lines as they are, hostile ones too."""

    def _validate_path(self, url: str) -> None: ...

    def _encode_request(self, request: str) -> bytes:
        return request.encode("latin-1")


HOSTS = (f"test-{number}.tarry.example" for number in itertools.count())


class RunningFront:
    def __init__(self, front: FrontConfig) -> None:
        self.front = front
        self.host = next(HOSTS)
        self.port = int(front.listen.rpartition(":")[2])
        self.main = Origin(front.runtime.socket("main"))
        self.retry = Origin(front.runtime.socket("retry"))
        places = (front.runtime.nginx_pid, front.runtime.socket("front"), front.data.hot)
        clearing = [sys.executable, "-m", "project.nginx_start", *map(str, places)]
        command = [*clearing, front.listen, "--", *nginx_command(front)]
        self.log = front.runtime.nginx / "log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdout=log, stderr=log)
        self._wait_until_it_listens()

    def renew(self) -> None:
        """Gives the front to the next test: another host, and origins and logs as at the start."""
        self.host = next(HOSTS)
        self.main.renew()
        self.retry.renew()
        for log in (self.log, self.front.traffic_log):
            if log and log.exists():
                os.truncate(log, 0)

    def get(self, target: str, host: str | None = None, *, method: str = "GET", **headers: str) -> Reply:
        """Sends the target as it stands, byte for byte. `_` in a header's name is written `-`."""
        return self._ask(RawConnection("127.0.0.1", self.port, timeout=10), target, host, method, headers)

    def get_by_socket(self, target: str) -> Reply:
        """The same by the socket that the waiting instance uses."""
        connection = RawConnection("front", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.front.runtime.socket("front")))
        return self._ask(connection, target, None, "GET", {})

    def flush_logs(self) -> None:
        """Has nginx write the lines that it gathers for a second, and open its logs anew."""
        self._process.send_signal(signal.SIGUSR1)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self.main.close()
        self.retry.close()

    def _ask(
        self, connection: HTTPConnection, target: str, host: str | None, method: str, headers: dict[str, str]
    ) -> Reply:
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", self.host if host is None else host)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def _wait_until_it_listens(self) -> None:
        # nginx writes its process id when it listens at all of its addresses.
        deadline = time.monotonic() + START_SECONDS
        while self._written_pid() != self._process.pid:
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.stop()
                raise RuntimeError(f"nginx did not start: {self.log.read_text()}")
            time.sleep(0.01)

    def _written_pid(self) -> int | None:
        try:
            return int(self.front.runtime.nginx_pid.read_text())
        except (FileNotFoundError, ValueError):  # not there yet, or not written to its end
            return None


def nginx_command(front: FrontConfig) -> list[str]:
    directory = str(front.runtime.nginx)
    return [preflight.find_tool("nginx"), "-e", "stderr", "-p", directory, "-c", f"{directory}/nginx.conf"]


@contextmanager
def front_folder() -> Iterator[Path]:
    """A folder with a short path: it holds unix sockets."""
    with tempfile.TemporaryDirectory(prefix="tarry-nginx-", dir="/tmp") as root:
        yield Path(root)


def front_values(root: Path) -> FrontConfig:
    data, runtime = DataDirectory(root / "data"), RuntimeDirectory(root / "run")
    preflight.make_directories(data, runtime)
    return FrontConfig(
        data=data,
        runtime=runtime,
        listen=f"127.0.0.1:{free_port()}",
        allowed_hosts=["localhost", "127.0.0.1", "[::1]", ".tarry.example"],
        public_scheme="http",
        retry_path="/retry_after",
        trusted_proxies=(),
        proxy_timeout_seconds=40,
        admin_timeout_seconds=120,
        upload_max_bytes=100_000,
        delivery_max_bytes=50_000,
        hot_max_bytes=10_000_000,
        backlog=128,
        limits=FileLimits(files=1024, connections=512),
        small=True,
        is_root=os.getuid() == 0,
    )


Start = Callable[..., RunningFront]


@contextmanager
def launched_fronts() -> Iterator[Start]:
    """Starts fronts, with changes to their values. Relative paths are below the front's data."""
    with ExitStack() as ends:

        def launch(**changes: Any) -> RunningFront:
            front = front_values(ends.enter_context(front_folder()))
            below = {name: front.data.root / value for name, value in changes.items() if isinstance(value, Path)}
            changed = replace(front, **changes | below)
            nginx_config.write_configuration(changed)
            running = RunningFront(changed)
            ends.callback(running.stop)
            return running

        yield launch


@pytest.fixture
def front() -> Iterator[FrontConfig]:
    """The values of a front that is not started."""
    with front_folder() as root:
        yield front_values(root)


@pytest.fixture
def launch() -> Iterator[Start]:
    """Starts a front that no other test uses."""
    with launched_fronts() as launch:
        yield launch


@pytest.fixture(scope="session")
def _shared_fronts() -> Iterator[Start]:
    running: dict[str, RunningFront] = {}
    with launched_fronts() as launch:

        def share(**changes: Any) -> RunningFront:
            key = repr(sorted(changes.items()))
            if key in running:
                running[key].renew()
            else:
                running[key] = launch(**changes)
            return running[key]

        yield share


@pytest.fixture
def start(_shared_fronts: Start) -> Start:
    """Starts a front with these changes, or renews the one that tests before have started."""
    return _shared_fronts


@pytest.fixture
def site(start: Start) -> RunningFront:
    return start()
