"""`python -m project.program [--end SIGNAL] [--nice N | --idle] MODULE ARGUMENT…`: a program of the site in Python.

supervisord forks the programs with their modules loaded (`preload`), so that these are in memory once, and a program
starts in no time. A child that was forked from older code than is on the disk executes Python anew.

It imports nothing of Django: a machine of stores alone needs none.
"""

import atexit
import os
import runpy
import shlex
import signal
import sys
import sysconfig
import threading
import traceback
from argparse import REMAINDER, ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NoReturn

import setproctitle

from resources import sandbox

from .paths import BASE_DIR

LEAST_NICE = 19
PACKAGES = ("retry", "resources", "feeds", "project")

_loaded_code: list[str] = []
"""The digest of the code that this process was forked with; none if it loads its own."""


def main(*arguments: str) -> None:
    """Runs the module in this process."""
    given = _parse_arguments(arguments)
    if given.end:
        sandbox.end_with_parent(os.getppid(), signal.Signals[f"SIG{given.end}"])
    if given.nice:
        os.nice(given.nice)
    if given.idle:
        _take_idle_processors()
    sys.argv = given.command
    runpy.run_module(given.command[0], run_name="__main__", alter_sys=True)


def _parse_arguments(arguments: Sequence[str]) -> "_Given":
    parser = ArgumentParser(prog="project.program", allow_abbrev=False)
    parser.add_argument("--end", default="", help="the signal that it gets when its parent ends")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--idle", action="store_true", help="it takes idle processors only")
    parser.add_argument("command", nargs=REMAINDER)
    return parser.parse_args(arguments, _Given())


class _Given:
    end: str
    nice: int
    idle: bool
    command: list[str]


def _take_idle_processors() -> None:
    """By sched(7) if the system allows it, else as nice as can be."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        os.nice(LEAST_NICE)


def run_forked(command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Runs `python -m project.program …` in this forked child of supervisord, as if it were executed."""
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    setproctitle.setproctitle(shlex.join(command))
    status = 1
    try:
        main(*command[3:])
        status = 0
    except SystemExit as end:
        status = _exit_status(end)
    except BaseException:  # noqa: BLE001  this process ends
        traceback.print_exc()
    finally:
        _end_process(status)


def _exit_status(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


def _end_process(status: int) -> NoReturn:
    """Ends as an interpreter does: it waits for its threads, and does what was put off until its exit."""
    with suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]  # as multiprocessing does
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def note_loaded_code(*digest: str) -> None:
    """Notes the digest of the code that was loaded: processes forked from now on have it. Without one, they load it."""
    _loaded_code[:] = digest


def is_code_loaded() -> bool:
    """Tells whether this process was forked with the site's code."""
    return bool(_loaded_code)


def is_code_current() -> bool:
    """Tells whether this process has loaded the code that is on the disk, or was forked with it."""
    return [digest_code()] == _loaded_code


def digest_code() -> str:
    """A digest of the names, sizes and times of the site's files, and of the list of installed packages."""
    found = blake2b(digest_size=16)
    for path in sorted(_code_files()):
        with suppress(FileNotFoundError):
            status = path.stat()
            found.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def _code_files() -> Iterator[Path]:
    yield Path(sysconfig.get_path("purelib"))
    yield Path(sysconfig.get_path("platlib"))
    for package in PACKAGES:
        yield from (BASE_DIR / package).rglob("*.py")
        yield from (BASE_DIR / package).rglob("*.lua")


if __name__ == "__main__":
    main(*sys.argv[1:])
