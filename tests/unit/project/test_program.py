"""The site's programs in Python, as supervisord forks them and as they are executed."""

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from project import program
from project.paths import BASE_DIR

SHOWN = """
import ctypes, os, signal, sys
end = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(end))  # PR_GET_PDEATHSIG
print(sys.argv[1:], __name__, end.value, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
"""
ENDS = {
    "sys.exit(3)": 3,
    "sys.exit('it has gone wrong')": 1,
    "sys.exit()": 0,
    "raise ValueError('it has gone wrong')": 1,
    "pass": 0,
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Makes a module of that text; returns its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(text: str) -> str:
        (tmp_path / "the_program.py").write_text(text)
        return "the_program"

    return make


def forked(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Its exit status and its output, when it is run as a forked child."""
    receiver, sender = os.pipe()
    command = [sys.executable, "-m", "project.program", *arguments]
    if (child := os.fork()) == 0:
        atexit._clear()  # those of the tests are not for this process
        os.dup2(sender, 1)
        os.dup2(sender, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        program.run_forked(command, environment or {**os.environ})
    os.close(sender)
    with os.fdopen(receiver) as output:
        said = output.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.mark.parametrize(
    ("options", "shown", "is_idle"),
    [
        (["--end", "TERM"], f"{int(signal.SIGTERM)} 0", False),
        (["--end", "KILL", "--nice", "3"], f"{int(signal.SIGKILL)} 3", False),
        (["--idle"], "0 0", True),
    ],
)
def test_it_has_its_end_its_priority_and_its_arguments(
    options: list[str], shown: str, is_idle: bool, module: Callable[[str], str]
) -> None:
    name = module(SHOWN)
    scheduler = os.SCHED_IDLE if is_idle else os.sched_getscheduler(0)
    expected = f"['--beat', 'x'] __main__ {shown} {scheduler}\n"
    assert forked(*options, name, "--beat", "x") == (0, expected)


def test_an_executed_one_is_like_a_forked_one(module: Callable[[str], str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "project.program", "--end", "TERM", "--nice", "3", module(SHOWN), "x"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=BASE_DIR, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"['x'] __main__ {int(signal.SIGTERM)} 3 {os.sched_getscheduler(0)}\n"


@pytest.mark.parametrize("ending", ENDS)
def test_a_forked_one_ends_as_an_interpreter_does(ending: str, module: Callable[[str], str]) -> None:
    waits = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('waited for'))).start()"
    name = module(f"import atexit, sys\natexit.register(print, 'put off')\n{waits}\n{ending}\n")
    status, said = forked(name)
    assert status == ENDS[ending]
    assert "waited for" in said
    assert "put off" in said
    assert ("it has gone wrong" in said) is ("wrong" in ending)


def test_a_forked_one_has_its_own_environment_and_takes_signals_as_usual(module: Callable[[str], str]) -> None:
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    try:
        name = module("import os, signal\nprint(sorted(os.environ), signal.getsignal(signal.SIGHUP).name)")
        assert forked(name, environment={"ONE": "1"}) == (0, "['ONE'] SIG_DFL\n")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_it_is_told_when_the_code_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "BASE_DIR", tmp_path)
    monkeypatch.setattr(program, "_loaded_code", [])
    script = tmp_path / "retry" / "lua" / "one.lua"
    script.parent.mkdir(parents=True)
    script.write_text("return 1")
    assert not program.is_code_loaded()
    program.note_loaded_code(program.digest_code())
    assert (program.is_code_loaded(), program.is_code_current()) == (True, True)
    script.write_text("return 10")
    assert not program.is_code_current()


def test_loading_the_site_opens_no_connection_and_starts_no_thread(tmp_path: Path) -> None:
    code = """if True:
        import gc, os, threading
        from project import preload
        preload.load_site()
        files = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        open_ones = [os.readlink(file) for file in files if os.path.lexists(file)]
        sockets = [name for name in open_ones if name.startswith("socket:")]
        print(threading.active_count(), sockets, gc.get_freeze_count() > 100_000)
    """
    environment = {"PATH": os.environ["PATH"], "DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=BASE_DIR, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 [] True\n"
