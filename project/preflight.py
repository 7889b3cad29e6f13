"""What must hold before the processes start, with an error that says what to do. Starts no process."""

import errno
import fcntl
import os
import secrets
import shutil
import socket
import stat
import subprocess
import time
from pathlib import Path

from .paths import DataDirectory, RuntimeDirectory

SOCKET_PATH_BYTES = 107
LONGEST_SOCKET_NAME = len("/supervisor.sock.1234567890")  # supervisord makes it under such a name
QUIET_SECONDS = 5

_PACKAGES = {"nginx": "nginx", "redis-server": "redis-server"}
_FORBIDDEN = frozenset("\"'$\\\n;{}")


class StartError(Exception):
    """The site cannot start. The message is for the operator."""


def trouble(error: OSError) -> str:
    """What the operator is told of a file or a directory that could not be made or written."""
    path = error.filename or "one of its files"
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return f"no permission for {path}. Choose another DATA_DIR."
        case errno.EROFS:
            return f"{path} cannot be written: its file system is mounted read-only. Choose another DATA_DIR."
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space is left to write {path}. Make some, or choose another DATA_DIR."
        case _:
            return f"{path} cannot be used ({error.strerror or error}). Choose another DATA_DIR."


def tool(name: str) -> str:
    """The path of a program of the system. Raises StartError when it is missing."""
    search = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/usr/local/sbin:/sbin"
    found = shutil.which(name, path=search)
    if found is None:
        raise StartError(f"{name} is missing. Run ./setup.sh, or install the package {_PACKAGES.get(name, name)}.")
    return found


def launcher(signal: str) -> tuple[str, ...]:
    """A command prefix that has a process sent TERM or KILL when its parent is gone, where the system has it
    (util-linux).
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", signal) if setpriv else ()


def idle() -> tuple[str, ...]:
    """A command prefix that gives a process what no other has a use for: sched(7) where the system allows it."""
    chrt = shutil.which("chrt")
    prefix = (chrt, "--idle", "0") if chrt else ()
    is_allowed = prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    return prefix if is_allowed else ("nice", "-n", "19")


def make_directories(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    """Makes the directories. Raises StartError where one cannot be used safely."""
    for root in (data.root, runtime.root):
        require_plain(root)
    if len(os.fsencode(runtime.root)) + LONGEST_SOCKET_NAME > SOCKET_PATH_BYTES:
        raise StartError(f"{runtime.root} is too long for unix sockets. Choose a shorter RUNTIME_DIR.")
    _make_writable(data.root)
    for directory in (data.blobs, data.hot, data.logs, data.state, data.static, data.uploads):
        directory.mkdir(exist_ok=True)
    _make_private(runtime.root)
    runtime.nginx.mkdir(mode=0o700, exist_ok=True)


def require_plain(path: Path) -> None:
    """Raises StartError for a path that would mean something else in a configuration file."""
    if _FORBIDDEN & set(str(path)):
        raise StartError(f"the path {path} has characters that the configuration files cannot hold.")


def nameservers(path: Path) -> list[str]:
    """The name servers of a resolv.conf, as nginx writes them; none where there is no such file."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    found = [words[1] for words in map(str.split, lines) if len(words) > 1 and words[0] == "nameserver"]
    return [f"[{address}]" if ":" in address else address for address in found if "%" not in address]


def hold_lock(path: Path) -> int:
    """Locks the data directory until this process and what it becomes end. Raises StartError when another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode().strip() or "unknown"
        os.close(descriptor)
        raise StartError(
            f"it already runs on {path.parent} (process {holder}). Stop that one first, or choose another DATA_DIR."
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    os.set_inheritable(descriptor, True)  # supervisord keeps it over exec; its children do not get it
    return descriptor


def require_free_port(host: str, port: int, *, setting: str = "PORT") -> None:
    """Raises StartError when nginx could not listen there."""
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise StartError(f"it cannot listen on {host} port {port} ({reason}). Choose another {setting}.") from error


def require_quiet(runtime: RuntimeDirectory) -> None:
    """Waits for processes of a run that was killed to end. Raises StartError when they do not."""
    deadline = time.monotonic() + QUIET_SECONDS
    sockets = [runtime.socket(name) for name in ("state", "cache", "main", "retry", "front")]
    while answering := [path for path in sockets if _answers(path)]:
        if time.monotonic() > deadline:
            names = ", ".join(path.stem for path in answering)
            raise StartError(f"processes of an earlier run still serve {names} in {runtime.root}. End them first.")
        time.sleep(0.1)
    for path in sockets:
        path.unlink(missing_ok=True)


def make_secret_key(path: Path) -> None:
    """Writes a new key that only this user can read, unless there is one."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50) + "\n")


def empty_directory(path: Path) -> None:
    """Makes the directory anew."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise StartError(f"{path} is not a directory. Choose another DATA_DIR.") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise StartError(f"no permission to write to {path}. Choose another DATA_DIR.")


def _make_private(path: Path) -> None:
    """A directory in /tmp may have been put there by anybody: it must be ours, and nobody else's to enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StartError(f"{path} belongs to somebody else. Choose another RUNTIME_DIR.")
    path.chmod(0o700)
