"""`python -m project.clearing PID_FILE SOCKET [ADDRESS…] -- COMMAND…`: ends what a killed nginx left, becomes nginx.

The workers of a master that was killed go on listening, and its unix socket stays: a new master could not start. What
they had of bodies on the disk stays as well, and nginx never looks at it again.
"""

import os
import signal
import sys
from pathlib import Path

from . import listening

TEMPORARY = ("body", "proxy")
"""Folders beside nginx' configuration that hold what clients send, and what is sent to them slowly."""


def main(pid_file: str, socket: str, *rest: str) -> None:
    """Runs the command in this process once the way is clear, with what it is to listen at."""
    addresses, command = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    for pid in leftovers(Path(pid_file)):
        try:
            os.kill(pid, signal.SIGQUIT)  # it stops listening now, and ends when its clients have been answered
        except ProcessLookupError:
            continue
    Path(socket).unlink(missing_ok=True)
    remove_bodies(Path(pid_file).parent)
    if descriptors := listening.opened(addresses):
        os.environ[listening.VARIABLE] = descriptors
    os.execvp(command[0], command)  # noqa: S606  a list of our own


def remove_bodies(directory: Path) -> None:
    """Removes temporary files. Workers that still answer their clients have theirs open, and need no names."""
    for folder in TEMPORARY:
        for file in (directory / folder).rglob("*"):
            if not file.is_dir():
                file.unlink(missing_ok=True)


def leftovers(pid_file: Path, processes: Path = Path("/proc")) -> list[int]:
    """The nginx processes of the group that the last master led, if it is dead.

    As long as they live the system gives its number to nobody; a living process of that number is another one.
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


if __name__ == "__main__":
    main(*sys.argv[1:])
