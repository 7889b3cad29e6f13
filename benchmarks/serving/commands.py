"""The start of a management command: CPU time, beside Django's own `check` in an empty project."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.stack import ROOT

from ..figures import Figure, Note

ROUNDS = 7
SECONDS = 0.6
COMMANDS = (("--help",), ("feed_plan",))


def measure() -> Iterator[Figure | Note]:
    """The least CPU time of several runs, with an empty database; commands and `check` take turns."""
    with TemporaryDirectory() as directory:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DJANGO"))},
            **{"DATA_DIR": directory, "DATABASE_URL": f"sqlite:///{directory}/rows.sqlite3"},
            **{"SECRET_KEY": "for this run", "DEMO": "0"},
        }
        _run(ROOT, environment, "migrate", "--verbosity", "0")
        making = [sys.executable, "-m", "django", "startproject", "empty", directory]
        subprocess.run(making, env=environment, check=True)
        empty = Path(directory)
        rounds = [
            [_run(empty, environment, "check"), *(_run(ROOT, environment, *one) for one in COMMANDS)]
            for _ in range(ROUNDS)
        ]
    least = [min(each) for each in zip(*rounds, strict=True)]
    yield Figure("CPU time of Django's own check in an empty project", least[0], "s")
    for command, seconds in zip(COMMANDS, least[1:], strict=True):
        yield Figure(f"CPU time of manage.py {' '.join(command)}", seconds, "s", at_most=SECONDS)


def _run(project: Path, environment: dict[str, str], *arguments: str) -> float:
    """CPU seconds of a command. Raises CalledProcessError."""
    before = _children_seconds()
    command: Sequence[str] = [sys.executable, "manage.py", *arguments]
    subprocess.run(command, cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)
    return _children_seconds() - before


def _children_seconds() -> float:
    taken = resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken.ru_utime + taken.ru_stime
