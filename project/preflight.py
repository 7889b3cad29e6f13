"""The conditions for a start, checked with errors that tell the operator the remedy. Starts no process.

Includes the limits of this machine: open files, and queues of connections.
"""

import errno
import fcntl
import os
import re
import resource
import secrets
import shutil
import socket
import stat
import subprocess
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from .environment import read_machine
from .paths import DataDirectory, RuntimeDirectory

MAX_SOCKET_PATH_BYTES = 107
MAX_SOCKET_NAME_BYTES = len("/supervisor.sock.1234567890")  # supervisord creates its socket under such a name
QUIET_TIMEOUT_SECONDS = 5
GIT_SECONDS = 5

WANTED_BACKLOG = 16384
MAX_KEPT_OPEN = 1000

_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")
_FORBIDDEN_CHARACTERS = frozenset("\"'$\\\n;{}")


class StartError(Exception):
    """The site cannot start. The message is for the operator."""


def explain_os_error(error: OSError) -> str:
    """Explains to the operator an error of a file or a directory that could not be made or written."""
    path = error.filename or "one of its files"
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return f"no permission for {path}. Give it to the user that runs Tarry, or choose another DATA_DIR."
        case errno.EROFS:
            return f"{path} cannot be written: its file system is mounted read-only. Choose another DATA_DIR."
        case errno.ENOSPC | errno.EDQUOT:
            return f"no space is left to write {path}. Make some, or choose another DATA_DIR."
        case _:
            return f"{path} cannot be used ({error.strerror or error}). Choose another DATA_DIR."


def find_tool(name: str) -> str:
    """The path of a program of the system. Raises StartError if it is missing."""
    search = os.environ.get("PATH", "") + os.pathsep + "/usr/sbin:/usr/local/sbin:/sbin"
    found = shutil.which(name, path=search)
    if found is None:
        raise StartError(f"{name} is missing. Run ./setup.sh, or install the package {name}.")
    return found


def launcher_prefix(signal: str) -> tuple[str, ...]:
    """A command prefix that sends a process TERM or KILL when its parent is gone; empty without util-linux."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", signal) if setpriv else ()


def make_directories(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    """Makes the directories. Raises StartError if one cannot be used safely."""
    for root in (data.root, runtime.root):
        require_plain(root)
    if len(os.fsencode(runtime.root)) + MAX_SOCKET_NAME_BYTES > MAX_SOCKET_PATH_BYTES:
        raise StartError(f"{runtime.root} is too long for unix sockets. Choose a shorter RUNTIME_DIR.")
    _make_writable(data.root)
    for directory in (data.blobs, data.hot, data.logs, data.state, data.static, data.uploads):
        directory.mkdir(exist_ok=True)
    _make_private(runtime.root)
    for directory in (runtime.nginx, runtime.metrics):
        directory.mkdir(mode=0o700, exist_ok=True)


def require_plain(path: Path) -> None:
    """Raises StartError for a path that would mean something else in a configuration file."""
    if _FORBIDDEN_CHARACTERS & set(str(path)):
        raise StartError(f"the path {path} has characters that the configuration files cannot hold.")


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise StartError(f"{path} is not a directory. Choose another DATA_DIR.") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise StartError(f"no permission to write to {path}. Choose another DATA_DIR.")


def _make_private(path: Path) -> None:
    """Makes a directory that only we may enter. Raises StartError if another user has put one there, as in /tmp."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise StartError(f"{path} belongs to another user. Choose another RUNTIME_DIR.")
    path.chmod(0o700)


def empty_directory(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)


def hold_lock(path: Path) -> int:
    """Locks the data directory until this process, also as supervisord, ends. Raises StartError if another holds it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode().strip() or "unknown"
        os.close(descriptor)
        raise StartError(
            f"another Tarry runs on {path.parent} (process {holder}). Stop it first, or choose another DATA_DIR."
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    os.set_inheritable(descriptor, True)  # supervisord keeps it over exec; its children do not get it
    return descriptor


def require_free_port(host: str, port: int, *, setting: str = "PORT") -> None:
    """Raises StartError if nginx could not listen there."""
    host = host.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise StartError(f"it cannot listen on {host} port {port} ({reason}). Choose another {setting}.") from error


def require_quiet(runtime: RuntimeDirectory) -> None:
    """Waits for the processes of a killed run to end. Raises StartError if they do not."""
    deadline = time.monotonic() + QUIET_TIMEOUT_SECONDS
    sockets = [runtime.socket(name) for name in ("state", "cache", "main", "retry", "front")]
    while answering := [path for path in sockets if _is_answering(path)]:
        if time.monotonic() > deadline:
            names = ", ".join(path.stem for path in answering)
            raise StartError(f"processes of an earlier run still serve {names} in {runtime.root}. End them first.")
        time.sleep(0.1)
    for path in sockets:
        path.unlink(missing_ok=True)


def _is_answering(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def name_machine(path: Path) -> None:
    """Writes the machine's name and a new id of its installation, unless both can be read there.

    The name is the host's, but not the id of a container: the next container on this data has another.
    """
    if not read_machine(path)[1]:
        host, installation = socket.gethostname(), uuid4().hex
        name = f"machine-{installation[:8]}" if _CONTAINER_ID.fullmatch(host) else host
        new = path.with_name(f"{path.name}.new")
        new.write_text(f"{name}\n{installation}\n")
        new.replace(path)


def make_secret_key(path: Path) -> None:
    """Writes a new key that only this user can read, unless there is one."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(50) + "\n")


def require_secret_key(path: Path) -> None:
    """Requires a key in the file that SECRET_KEY_FILE names. Raises StartError."""
    try:
        has_key = bool(path.read_text().strip())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StartError(f"SECRET_KEY_FILE names {path}, which cannot be read: {why}.") from error
    if not has_key:
        raise StartError(f"SECRET_KEY_FILE names {path}, which is empty. Write a long random text into it.")


def read_version(checkout: Path) -> str:
    """Reads the version of this code: the project's, and the commit where git knows it, as `0.1.0 91fae384`."""
    version = str(tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["version"])
    if not (checkout / ".git").exists():
        return version
    try:
        command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
        found = subprocess.run(command, capture_output=True, check=True, text=True, timeout=GIT_SECONDS)
    except (OSError, subprocess.SubprocessError):  # no git, or the checkout is another user's
        return version
    return f"{version} {found.stdout.strip()}"


def read_nameservers(path: Path) -> list[str]:
    """The name servers of a resolv.conf, in nginx' spelling; none without such a file."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    found = [words[1] for words in map(str.split, lines) if len(words) > 1 and words[0] == "nameserver"]
    return [f"[{address}]" if ":" in address else address for address in found if "%" not in address]


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Open files that a process may have; connections, and files of hot answers, that an nginx worker may hold."""

    files: int
    connections: int
    kept_open: int = 16


def listen_backlog() -> int:
    """The most connections that may wait to be accepted: a released herd comes back in one moment."""
    try:
        allowed = int(Path("/proc/sys/net/core/somaxconn").read_text())
    except (OSError, ValueError):
        allowed = 4096
    return min(WANTED_BACKLOG, allowed)


def raise_file_limit() -> int:
    """Raises this process's soft limit of open files to the hard one; returns it. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1_048_576


def nginx_limits(files: int, waiting_clients: int) -> FileLimits:
    """nginx' limits: two connections per waiting client, one to each side, and some more, as far as files allow."""
    kept_open = min(MAX_KEPT_OPEN, files // 16)
    connections = max(64, min(2 * waiting_clients + 4096, files - 64 - kept_open))
    return FileLimits(files=files, connections=connections, kept_open=kept_open)
