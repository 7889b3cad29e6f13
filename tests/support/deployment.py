"""The files of deploy/: the programs that check them, and the facts that they must agree with."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from project.paths import BASE_DIR, DataDirectory, RuntimeDirectory
from project.processes import ProcessPlan, list_processes

DEPLOY = BASE_DIR / "deploy"
NO_SETTINGS = {"PYTHONUNBUFFERED"}
"""Variables of the image that Python reads."""

_DESCRIBED = re.compile(r"^\| `([A-Z_]+)` \|", re.MULTILINE)


def find_program(name: str, package: str) -> str:
    """The path of a program of the system. Fails the test where the program is missing."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin")
    if found is None:
        pytest.fail(f"{name} is missing. Run ./setup.sh --dev, or install the package {package}.")
    return found


def run_tool(name: str, *arguments: str | Path, env: Mapping[str, str] | None = None) -> str:
    """Runs a program of the development packages. Returns its output; raises AssertionError where it finds a fault."""
    program = Path(sys.executable).with_name(name)
    done = subprocess.run(
        [program, *arguments], cwd=BASE_DIR, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def adapt_haproxy(address: str, servers: Mapping[str, str]) -> str:
    """The configuration of deploy/balancers for HAProxy, at this address without TLS, before these servers, by name.

    It has as many connections as this process may have files.
    """
    text = (DEPLOY / "balancers" / "haproxy.cfg").read_text()
    text = re.sub(r"^    (maxconn|bind :443|http-request redirect|server) .*\n", "", text, flags=re.MULTILINE)
    listed = "".join(f"    server {name} {server}\n" for name, server in servers.items())
    return text.replace("bind :80\n", f"bind {address}\n") + listed


def read_documents(*files: Path) -> list[dict[str, Any]]:
    """The YAML documents of files, in their order."""
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def read_variables(text: str) -> dict[str, str]:
    """The variables of an environment file: NAME=value lines, and comments."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def find_unknown_settings(names: Sequence[str] | Iterator[str]) -> list[str]:
    """Those of the names that docs/settings.md does not describe."""
    described = set(_DESCRIBED.findall((BASE_DIR / "docs" / "settings.md").read_text()))
    return sorted(set(names) - described - NO_SETTINGS)


def sum_stop_seconds(drain_seconds: float) -> float:
    """The longest stop of all processes: the drain, then group after group of supervisord."""
    plan = ProcessPlan(
        python="python",
        redis_server="redis-server",
        nginx="nginx",
        data=DataDirectory(Path("/data")),
        runtime=RuntimeDirectory(Path("/run")),
    )
    longest = dict[str, int]()
    for process in list_processes(plan):
        longest[process.group] = max(longest.get(process.group, 0), process.stop_wait_seconds)
    return drain_seconds + sum(longest.values())


def check_part(environment: Mapping[str, str], directory: Path) -> None:
    """Has the site check a part's settings, as its start does. Raises AssertionError for what it finds."""
    given = {
        **environment,
        "DATA_DIR": str(directory),
        "RUNTIME_DIR": str(directory),
        "SECRET_KEY": "a key for tests that has more than fifty characters, as it must have",
    }
    command = [sys.executable, "manage.py", "check", "--fail-level", "WARNING"]
    done = subprocess.run(command, cwd=BASE_DIR, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
