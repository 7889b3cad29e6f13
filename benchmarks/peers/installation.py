"""Peers from PyPI and Debian, unpacked into folders that can be thrown away (`benchmarks/results`).

None of them becomes a dependency of the project, and nothing of the system is changed.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "results"
INSTALL_SECONDS = 180


class MissingError(Exception):
    """A peer that cannot be had here. Says why."""


@cache
def commands(name: str, *packages: str) -> Path:
    """The folder with the commands of a Python environment that has these packages. Raises MissingError."""
    home = RESULTS / name
    create = [sys.executable, "-m", "venv", "--clear", str(home)]
    install = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _make(home, packages, [create, [*install, *packages]])
    return home / "bin"


@cache
def unpacked(name: str, *packages: str) -> Path:
    """The folder under which these packages of Debian's lie, as they would under `/`. Raises MissingError."""
    home = RESULTS / name
    files = home / "packages"
    fetch = ["sh", "-c", 'mkdir -p "$0" && cd "$0" && apt-get -qq download "$@"', str(files), *packages]
    unpack = ["sh", "-c", 'for file in "$0"/packages/*.deb; do dpkg -x "$file" "$0/root" || exit 1; done', str(home)]
    _make(home, packages, [fetch, unpack])
    return home / "root"


def _make(home: Path, packages: Sequence[str], steps: Sequence[Sequence[str]]) -> None:
    """Takes the steps, unless they were taken for the same packages before."""
    mark, wanted = home / "complete", "\n".join(packages)
    if mark.exists() and mark.read_text() == wanted:
        return
    shutil.rmtree(home, ignore_errors=True)
    try:
        for step in steps:
            subprocess.run(step, check=True, timeout=INSTALL_SECONDS, capture_output=True, text=True)
    except (subprocess.SubprocessError, OSError) as error:
        shutil.rmtree(home, ignore_errors=True)
        raise MissingError(f"{', '.join(packages)} cannot be installed here: {_last_words(error)}") from None
    mark.write_text(wanted)


def _last_words(error: Exception) -> str:
    said = str(getattr(error, "stderr", "") or error).strip()
    return said.rpartition("\n")[-1]
