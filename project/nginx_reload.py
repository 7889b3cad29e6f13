"""`python -m project.nginx_reload`: writes the front's configuration anew and has the running nginx load it.

Connections go on: waiting or downloading clients stay with the old workers until they have their answer. A
mistake is found before, and then nothing changes.
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

from . import nginx_config, nginx_start, nginx_values, preflight
from .paths import DataDirectory, RuntimeDirectory
from .preflight import StartError


def main() -> None:
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    try:
        django.setup()
        reload_nginx(DataDirectory(settings.DATA_DIR), RuntimeDirectory(settings.NGINX_PID_FILE.parent.parent))
    except (StartError, ImproperlyConfigured, ValueError) as error:
        sys.exit(f"nginx goes on as it was: {error}")
    except OSError as error:
        sys.exit(f"nginx goes on as it was: {preflight.explain_os_error(error)}")


def reload_nginx(data: DataDirectory, runtime: RuntimeDirectory) -> None:
    """Makes the running nginx load the current templates. Raises StartError, and then leaves all as it was."""
    pid = running_nginx(runtime.nginx_pid)
    files, _ = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    front = nginx_values.front_config(data, runtime, files=files, samples=settings.SAMPLES)
    before = {file: file.read_text() for file in runtime.nginx.glob("*.conf")}
    nginx_config.write_configuration(front)
    if wrong := _find_mistakes(runtime):
        for file, text in before.items():
            file.write_text(text)
        raise StartError(f"the new configuration is wrong.\n{wrong}")
    os.kill(pid, signal.SIGHUP)
    nginx_start.make_hot_folders(data.hot, is_emptied=False)


def running_nginx(pid_file: Path) -> int:
    """The process id of nginx. Raises StartError if there is none."""
    try:
        pid = int(pid_file.read_text())
        os.kill(pid, 0)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        raise StartError(f"no nginx runs that has written {pid_file}. Set DATA_DIR as for the site.") from None
    return pid


def _find_mistakes(runtime: RuntimeDirectory) -> str:
    """nginx' message about wrong files; empty if there are none."""
    paths = ["-p", str(runtime.nginx), "-c", str(runtime.nginx / "nginx.conf")]
    command = [preflight.find_tool("nginx"), "-t", "-q", "-e", "stderr", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


if __name__ == "__main__":
    main()
