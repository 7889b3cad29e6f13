"""The whole site for tests: `python -m project.run` in a directory and on a port of its own."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xmlrpc.client import ServerProxy

import psutil
import redis
import requests

from ..flows.slow.events import Diary
from . import clock
from .command_server import run_command
from .databases import OwnDatabase
from .prepared_data import PREPARED_DATA
from .processes import family, kill_family, kill_holders_of_sockets, supervisor, wait_until_ended
from .site import PATIENT_REDIS_SECONDS, Site, environment_of

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 180
SNAPSHOT_SECONDS = 1.1
"""A little more than twice LAYER_SNAPSHOT_SECONDS by default: layers are that old while they are read again. Benchmarks
run a site without Django's settings.
"""


class Stack(Site):
    """Nginx, both instances, the workers and both Redis servers, as `make run` starts them.

    It ends with the process that started it, even if that is killed. It never touches another run.
    """

    prefix: tuple[str, ...] = ()
    """Put before its commands, as what runs them in another network."""
    root = ROOT
    """The code that it runs."""

    def __init__(self, **environment: str) -> None:
        # Short, since it holds unix sockets.
        self.directory = Path(tempfile.mkdtemp(prefix="tarry-flow-", dir="/tmp"))
        self.runtime = self.directory / "run"
        self.data = self.directory / "data"
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.base_url = f"http://{self.host}"
        self.output = self.directory / "output.log"
        shared = os.environ.get("DATABASE_URL", "")
        self._database = OwnDatabase(shared) if shared.startswith("postgres") else None
        self.environment = {**environment_of(self.data, self.runtime, self.port), **environment}
        if self._database:
            self.environment["DATABASE_URL"] = self._database.url
        self.state = _client(self.runtime / "state.sock")
        self.cache = _client(self.runtime / "cache.sock")
        self._process: subprocess.Popen[bytes] | None = None
        self._commands: subprocess.Popen[bytes] | None = None
        self._commands_socket = self.directory / "commands.sock"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self) -> None:
        """Starts everything and waits until all parts are healthy."""
        self.begin_to_start()
        self.wait_until_healthy(START_SECONDS)
        PREPARED_DATA.take(self.data)

    def begin_to_start(self) -> None:
        """Starts everything, and returns at once."""
        PREPARED_DATA.give(self.data)
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [*self.prefix, "setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "project.run"],
                cwd=self.root,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0,  # a process that signals its own group there does not mean the tests
            )

    def end(self) -> None:
        """Kills everything, which is quicker than to ask, and removes the directory."""
        self.crash()
        if self._commands is not None:
            kill_family(self._commands)
        self.state.close()
        self.cache.close()
        if self._database:
            self._database.drop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def crash(self) -> None:
        """Kills everything at once, as if the machine had failed. The directory stays."""
        if self._process is not None:
            kill_family(self._process)
            kill_holders_of_sockets(self.runtime)
            self._process = None

    def shut_down(self, number: signal.Signals, seconds: float) -> list[psutil.Process]:
        """Sends the signal to the process manager; returns the processes that still run after that time."""
        assert self._process is not None
        members = family(self._process.pid)
        self._process.send_signal(number)
        self._process.wait(seconds)
        self._process = None
        return wait_until_ended(members, seconds)

    def wait_until_healthy(self, seconds: float = 30) -> None:
        """Waits until /healthz is 200. Raises with the logs' ends when it is not in time."""
        deadline = clock.seconds() + seconds
        found: object = None
        while clock.seconds() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            status, found = self.health()
            if status == 200:
                return
            time.sleep(0.25)
        raise RuntimeError(f"the stack is not healthy: {found}\n{self.logs()}")

    def pid(self, name: str) -> int:
        """The process of that name, as `main`, `retry`, `paint-now`, `state`, `nginx`. Waits until there is one."""
        found: list[int] = []

        def runs() -> bool:
            info = self._information(name)
            found[:] = [int(info["pid"])]
            return bool(info["pid"])

        eventually(runs, 10, f"{name} runs")
        return found[0]

    def pids(self, name: str) -> list[int]:
        """The process and all its children, the process first."""
        return [process.pid for process in family(self.pid(name))]

    def all_pids(self) -> list[int]:
        """Every process of the stack, supervisord first."""
        assert self._process is not None
        return [process.pid for process in family(self._process.pid)]

    def signal(self, name: str, number: signal.Signals, *, children: bool = False) -> None:
        for pid in self.pids(name) if children else [self.pid(name)]:
            os.kill(pid, number)

    def kill(self, name: str, *, children: bool = False) -> None:
        """SIGKILL. The process manager starts the process again."""
        self.signal(name, signal.SIGKILL, children=children)

    def freeze(self, name: str, *, children: bool = False) -> None:
        self.signal(name, signal.SIGSTOP, children=children)

    def thaw(self, name: str, *, children: bool = False) -> None:
        self.signal(name, signal.SIGCONT, children=children)

    def reload(self, name: str) -> None:
        """HUP: gunicorn replaces its workers."""
        self.signal(name, signal.SIGHUP)

    def stop(self, name: str) -> None:
        """Stops a process and keeps it stopped, until `begin`."""
        member = self._member(name)
        with self.supervisor() as proxy:
            proxy.supervisor.stopProcess(member)

    def begin(self, name: str) -> None:
        member = self._member(name)
        with self.supervisor() as proxy:
            proxy.supervisor.startProcess(member)

    def supervisor(self) -> ServerProxy:
        """A connection for one call."""
        return supervisor(self.runtime / "supervisor.sock")

    def _member(self, name: str) -> str:
        """A process's name with that of its group."""
        return f"{self._information(name)['group']}:{name}"

    def _information(self, name: str) -> dict[str, Any]:
        with self.supervisor() as proxy:
            listed = proxy.supervisor.getAllProcessInfo()
        assert isinstance(listed, list)
        return next(info for info in listed if info["name"] == name)

    def executions(self, name: str, event: str = "start") -> int:
        """The number of times slow content of that name was begun (or finished), by its own count."""
        return self._diary(name).count(event)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of slow content of that name: event, token, pid, time."""
        return self._diary(name).entries()

    def wait_for(self, name: str, event: str = "start", count: int = 1, seconds: float = 30) -> dict[str, Any]:
        """Waits until the event has happened that often; returns the last of them."""
        eventually(lambda: self.executions(name, event) >= count, seconds, f"{event} of {name}")
        return [entry for entry in self.events(name) if entry["event"] == event][count - 1]

    def open_gate(self, name: str) -> None:
        """Lets gated content of that name be prepared."""
        self._diary(name).open_gate()

    def open_all_gates(self) -> None:
        for events in (self.data / "slow").glob("*.events"):
            self.open_gate(events.stem)

    def _diary(self, name: str) -> Diary:
        return Diary(self.data / "slow", name)

    def manage(self, *arguments: str) -> str:
        """Runs a management command on the stack, by a process that has loaded the site; returns its output."""
        if self._commands is None:
            self._commands = self._start_commands()
        done = run_command(str(self._commands_socket), list(arguments))
        if done["status"]:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done['stdout']}\n{done['stderr']}")
        return done["stdout"]

    def change_layers(self, *arguments: str) -> None:
        """Runs a management command that changes layers; returns when no process' snapshot of them is older."""
        self.manage(*arguments)
        time.sleep(SNAPSHOT_SECONDS)

    def _start_commands(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "tests.support.command_server", str(self._commands_socket)]
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [*self.prefix, "setpriv", "--pdeathsig", "KILL", *command],
                cwd=self.root,
                env=self.managed(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        eventually(self._commands_socket.exists, START_SECONDS, "commands can be run")
        return process

    def start_command(self, *arguments: str) -> "subprocess.Popen[str]":
        """Starts a management command on the stack; the caller ends it."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.Popen(
            [*self.prefix, *command],
            cwd=self.root,
            env=self.managed(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def managed(self) -> dict[str, str]:
        """The environment of commands: a busy machine is no outage to them, with any settings of the site."""
        return {**self.environment, "PUBLIC_URL": self.base_url, "RETRY_REDIS_TIMEOUT": PATIENT_REDIS_SECONDS}


def eventually(holds: Callable[[], object], seconds: float, what: str) -> None:
    """Waits until it holds. Raises AssertionError when it does not in time."""
    began = clock.seconds()
    while not holds():
        if (lasted := clock.seconds() - began) > seconds:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(min(max(0.02, lasted / 10), 0.2))  # polling costs the site processor time


def answers(url: str, status: int) -> bool:
    """Tells whether a server answers there with that status."""
    try:
        return requests.get(url, timeout=5).status_code == status
    except (requests.ConnectionError, requests.Timeout):
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _client(path: Path) -> "redis.Redis":
    return redis.Redis(unix_socket_path=str(path), socket_timeout=5)
