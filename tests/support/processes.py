"""Processes with all their children: names, end, and XML-RPC with the stack's supervisord over its socket."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy, Transport

import psutil

from project.paths import DataDirectory, RuntimeDirectory
from project.processes import ProcessPlan, list_processes

END_SECONDS = 10


def family(pid: int) -> list[psutil.Process]:
    """The process and all below it, the process first; nothing when it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_until_ended(members: Sequence[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Waits for all of them; returns those that still run. A zombie has ended."""
    deadline = time.monotonic() + seconds
    while (left := [member for member in members if _runs(member)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def peak_bytes(pid: int) -> int:
    """The most memory that the process had at a time, by the kernel's own count."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def kill_family(process: "subprocess.Popen[Any]") -> None:
    """Parents before children, so that none is started again."""
    members = family(process.pid)
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)  # psutil compares start times: a reused pid is left alone
    process.wait()
    wait_until_ended(members, END_SECONDS)


def kill_holders_of_sockets(directory: Path) -> None:
    """The processes that outlived their parent, as when a test killed that."""
    for connection in psutil.net_connections("unix"):
        if connection.pid and str(connection.laddr).startswith(f"{directory}/"):
            with suppress(ProcessLookupError):
                os.kill(connection.pid, signal.SIGKILL)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


PATIENCE_SECONDS = 60


def supervisor(path: Path) -> ServerProxy:
    """A proxy for the supervisord that listens there. Close it, or use it in a `with`."""
    return ServerProxy("http://supervisor", transport=_UnixTransport(path))


class _UnixTransport(Transport):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> HTTPConnection:
        connection = HTTPConnection("supervisor")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE_SECONDS)
        connection.sock.connect(str(self._path))
        self._connection = host, connection  # close() closes this one
        return connection


_NOWHERE = Path()
_ALL = list_processes(ProcessPlan("", "", "", DataDirectory(_NOWHERE), RuntimeDirectory(_NOWHERE)))

PROCESSES = tuple(process.name for process in _ALL)
STORES = tuple(process.name for process in _ALL if process.group == "stores")
