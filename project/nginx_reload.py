"""`python -m project.reloading`: writes the front's configuration anew, for the nginx that runs, and has it taken up.

Connections go on: those who wait, or download, stay with the old workers until they have their answer. What is wrong is
found before, and nothing changes then.
"""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from . import facing, fronting, starting
from .paths import DataDirectory, RuntimeDirectory
from .starting import StartError


def main() -> None:
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    try:
        django.setup()
        reload(DataDirectory(settings.DATA_DIR), RuntimeDirectory(settings.NGINX_PID_FILE.parent.parent))
    except (StartError, ImproperlyConfigured, ValueError) as error:
        sys.exit(f"nginx goes on as it was: {error}")
    except OSError as error:
        sys.exit(f"nginx goes on as it was: {starting.trouble(error)}")


def reload(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    """Has the running nginx take up what the templates say now. Raises StartError, and leaves all as it was."""
    pid = running(runtime.nginx_pid)
    files, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    front = facing.front(data, runtime, files=files, samples=facing.samples(settings.SAMPLES))
    before = {file: file.read_text() for file in runtime.nginx.glob("*.conf")}
    fronting.write(front)
    if wrong := _mistakes(runtime):
        for file, text in before.items():
            file.write_text(text)
        raise StartError(f"the new configuration is wrong.\n{wrong}")
    os.kill(pid, signal.SIGHUP)


def running(pid_file: Path) -> int:
    """The process of nginx. Raises StartError when there is none."""
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        raise StartError(f"no nginx runs that has written {pid_file}. Set DATA_DIR as for the site.") from None
    return pid


def _mistakes(runtime: RuntimeDirectory) -> str:
    """What nginx says of files that it would not take up; empty if it would."""
    command = [starting.tool("nginx"), "-t", "-q", "-e", "stderr", "-p", str(runtime.nginx)]
    done = subprocess.run(
        [*command, "-c", str(runtime.nginx / "nginx.conf")], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() if done.returncode else ""


if __name__ == "__main__":
    main()
