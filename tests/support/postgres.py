"""`python -m tests.support.postgres COMMAND...`: runs a command with DATABASE_URL naming a private PostgreSQL.

The server listens on a unix socket in a temporary directory and ends with the command.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

START_SECONDS = 30


def main(command: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by TERM"))  # so that the server is stopped
    directory = make_directory()
    try:
        data, prefix = make_data(directory)
        ending = [*(prefix or ["setpriv"]), "--pdeathsig", "QUIT"]
        with _server([*ending, find_tool("postgres"), "-D", str(data)], directory):
            url = f"postgres://tarry@/{directory}/postgres"  # as django-environ writes a socket's directory
            return subprocess.run(command, env={**os.environ, "DATABASE_URL": url}, check=False).returncode
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def make_directory() -> Path:
    """Makes a directory for a server, with a short path."""
    return Path(tempfile.mkdtemp(prefix="tarry-pg-", dir="/tmp"))


def make_data(directory: Path) -> tuple[Path, list[str]]:
    """Makes the data of a server. Returns their folder, and what runs commands as the user who owns it."""
    prefix, data = _give_to_an_ordinary_user(directory), directory / "data"
    options = ["-U", "tarry", "-A", "trust", "--no-sync", "-E", "UTF8"]
    _run([*prefix, find_tool("initdb"), "-D", str(data), *options])
    return data, prefix


@contextmanager
def _server(command: list[str], directory: Path) -> Iterator[None]:
    """A running server for several sites at once, which ends with this process, however that ends."""
    options = ("listen_addresses=", f"unix_socket_directories={directory}", "fsync=off", "max_connections=400")
    named = [part for option in options for part in ("-c", option)]
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *named], stdout=output, stderr=output, cwd="/tmp")
    try:
        _wait_until_it_listens(process, directory / ".s.PGSQL.5432", log)
        yield
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
        process.wait()


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", path: Path, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(path):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)


def _answers(path: Path) -> bool:
    """Tells whether the server takes connections: it refuses them while it starts."""
    try:
        psycopg.connect(host=str(path.parent), user="tarry", dbname="postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def _give_to_an_ordinary_user(directory: Path) -> list[str]:
    """PostgreSQL refuses root: for root, a prefix that runs a command as another user."""
    if os.getuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def find_tool(name: str) -> str:
    """The path of a program of PostgreSQL. Debian keeps them out of the PATH."""
    known = [shutil.which(name), *sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), reverse=True)]
    found = next(filter(None, known), None)
    if found is None:
        sys.exit(f"{name} is missing. Install the package postgresql.")
    return found


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/tmp")
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
