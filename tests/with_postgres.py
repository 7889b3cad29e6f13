"""`python -m tests.with_postgres COMMAND...`: runs a command with DATABASE_URL naming a private PostgreSQL.

The server listens on a unix socket in a temporary directory and ends with the command.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


def main(command: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by TERM"))  # so that the server is stopped
    directory = Path(tempfile.mkdtemp(prefix="tarry-pg-", dir="/tmp"))
    prefix = _owned_by_an_ordinary_user(directory)
    data = directory / "data"
    try:
        _run([*prefix, _tool("initdb"), "-D", str(data), "-U", "tarry", "-A", "trust", "--no-sync", "-E", "UTF8"])
        options = f"-c listen_addresses='' -c unix_socket_directories={directory} -c fsync=off"
        control = [*prefix, _tool("pg_ctl"), "-D", str(data), "-w", "-l", str(directory / "log")]
        _run([*control, "-o", options, "start"])
        try:
            url = f"postgres://tarry@/{directory}/postgres"  # as django-environ writes a socket's directory
            return subprocess.run(command, env={**os.environ, "DATABASE_URL": url}, check=False).returncode
        finally:
            _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _owned_by_an_ordinary_user(directory: Path) -> list[str]:
    """PostgreSQL refuses root: for root, a prefix that runs a command as somebody else."""
    if os.getuid() != 0:
        return []
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _tool(name: str) -> str:
    """Debian keeps PostgreSQL's programs out of the PATH."""
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
