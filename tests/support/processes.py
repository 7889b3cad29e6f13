"""Processes with all their children, and how they are ended."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

END_SECONDS = 10


def family(pid: int) -> list[psutil.Process]:
    """The process and all below it, the process first; nothing when it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def wait_until_ended(members: Sequence[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Waits for all of them; returns those that still run. A zombie has ended: who reaps it is not our business."""
    deadline = time.monotonic() + seconds
    while (left := [member for member in members if _runs(member)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def kill_family(process: "subprocess.Popen[bytes]") -> None:
    """Parents before children, so that none is started again."""
    members = family(process.pid)
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.send_signal(signal.SIGKILL)  # psutil compares start times: a reused pid is left alone
    process.wait()
    wait_until_ended(members, END_SECONDS)


def kill_holders_of_sockets(directory: Path) -> None:
    """Those that outlived their parent, as when a test killed that."""
    for connection in psutil.net_connections("unix"):
        if connection.pid and str(connection.laddr).startswith(f"{directory}/"):
            with suppress(ProcessLookupError):
                os.kill(connection.pid, signal.SIGKILL)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
