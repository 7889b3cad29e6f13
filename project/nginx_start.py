"""`python -m project.nginx_start PID_FILE SOCKET HOT [--empty] [ADDRESS…] -- COMMAND…`: clears the way for nginx.

The workers of a killed master go on listening, and its unix socket stays: a new master could not start. Their
temporary request bodies stay on the disk too, and nginx never looks at them again.

The listening sockets are opened here because nginx cannot be told to send without delay. nginx gathers an
answer's head and file in whole segments (`tcp_nopush`) and leaves Nagle's algorithm on. Over the loopback
interface, whose segments take 64 KB, the end of an answer between one and two segments then waits for a delayed
acknowledgement: 40 ms. Connections inherit TCP_NODELAY from the socket that accepts them.

A new nginx counts what is in the hot cache only after a minute, and would fill it to its bound once more meanwhile.
Where the disk is bounded, the hot cache is emptied first: nothing in it stays fresh for longer than seconds. Its
folders are made before the first answers, which would wait for them.
"""

import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

SOCKETS_VARIABLE = "NGINX"
"""The environment variable with the descriptors that nginx takes over, each followed by a semicolon."""

LISTEN_PATIENCE_SECONDS, LISTEN_PAUSE_SECONDS = 2.0, 0.02
"""The workers of a killed nginx may need a moment to release an address."""

TEMPORARY_FOLDERS = ("body", "proxy")
"""Folders beside nginx' configuration with clients' request bodies, and with answers to slow clients."""


def main(pid_file: str, socket: str, hot: str, *rest: str) -> None:
    """Runs the command in this process once the way is clear, with its listening sockets."""
    addresses, command = list(rest[: rest.index("--")]), rest[rest.index("--") + 1 :]
    for pid in find_leftovers(Path(pid_file)):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGQUIT)  # it stops listening now, and ends after the answers to its clients
    Path(socket).unlink(missing_ok=True)
    remove_bodies(Path(pid_file).parent)
    is_emptied = addresses[:1] == ["--empty"]
    make_hot_folders(Path(hot), is_emptied=is_emptied)
    if descriptors := open_sockets(addresses[is_emptied:]):
        os.environ[SOCKETS_VARIABLE] = descriptors
    os.execvp(command[0], command)  # noqa: S606  a list of our own


def find_leftovers(pid_file: Path, processes: Path = Path("/proc")) -> list[int]:
    """The nginx processes of the dead last master's process group; none while it lives.

    While they live, the system does not give its number to a new process.
    """
    try:
        master = int(pid_file.read_text())
    except (OSError, ValueError):
        return []
    if (processes / str(master)).exists():
        return []
    members = (int(entry.name) for entry in processes.iterdir() if entry.name.isdigit())
    return sorted(pid for pid in members if _is_nginx_of(processes / str(pid), master))


def _is_nginx_of(process: Path, master: int) -> bool:
    try:
        name, _, rest = (process / "stat").read_text().rpartition(")")
    except OSError:  # it has ended meanwhile
        return False
    return name.endswith("(nginx") and int(rest.split()[2]) == master


def remove_bodies(directory: Path) -> None:
    """Removes temporary files. Workers that still answer have theirs open, and need no names."""
    for folder in TEMPORARY_FOLDERS:
        for file in (directory / folder).rglob("*"):
            if not file.is_dir():
                file.unlink(missing_ok=True)


HOT_FOLDERS = frozenset(f"{number:02x}" for number in range(256))
"""The folders of nginx' cache (`levels=2`): the last digits of the files' names."""


def make_hot_folders(hot: Path, *, is_emptied: bool) -> None:
    """Makes the folders of the hot cache, and removes all others, whose files nginx would neither find nor remove.

    An emptied one has no answers: workers of a killed nginx fetch them anew.
    """
    hot.mkdir(exist_ok=True)
    there = {folder.name for folder in hot.iterdir()}
    removed = there if is_emptied else there - HOT_FOLDERS
    for name in removed:
        shutil.rmtree(hot / name, ignore_errors=True)
    for name in HOT_FOLDERS - (there - removed):
        (hot / name).mkdir(exist_ok=True)


def open_sockets(addresses: Sequence[str], patience_seconds: float = LISTEN_PATIENCE_SECONDS) -> str:
    """Opens the sockets and returns the value of nginx' variable.

    Names, and addresses that are not free in time, are left out: nginx opens them, or reports the reason.
    """
    until = time.monotonic() + patience_seconds
    found = [_open_in_time(address, until) for address in addresses]
    return "".join(f"{listener.detach()};" for listener in found if listener)


def _open_in_time(address: str, until: float) -> socket.socket | None:
    host, _, port = address.rpartition(":")
    try:
        version = ip_address(host.strip("[]")).version
    except ValueError:
        return None
    while True:
        try:
            return _open_listener(socket.AF_INET6 if version == 6 else socket.AF_INET, host.strip("[]"), int(port))
        except OSError:
            if time.monotonic() >= until:
                return None
            time.sleep(LISTEN_PAUSE_SECONDS)


def _open_listener(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    """Opens a socket as nginx would. nginx sets the length of its queue. Raises OSError."""
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen()
        listener.setblocking(False)
        listener.set_inheritable(True)
    except OSError:
        listener.close()
        raise
    return listener


if __name__ == "__main__":
    main(*sys.argv[1:])
