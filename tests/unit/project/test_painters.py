"""The parent of painters: replaces those that end, and ends them with itself."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.stack import ROOT, eventually

SECONDS = 20
PARENT = """
import os, time
from project import lane_workers, painters

class Worker:
    def __init__(self, lanes, **_):
        self.lanes, self.ending = lanes, False

    def run(self):
        os.write(1, f"painter {os.getpid()} {self.lanes}\\n".encode())
        while not self.ending:
            time.sleep(0.01)
        os.write(1, b"finished\\n")

lane_workers.sign_in_queues = lambda queues: os.write(1, b"signed in\\n")
painters.LaneWorker, painters.FORK_PAUSE_SECONDS = Worker, 0.05
painters.Painters(["paint.now", "paint.pages"], 2).run()
"""


@pytest.fixture
def parent(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "project.settings", "DATA_DIR": str(tmp_path), "DEBUG": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def next_painter(parent: "subprocess.Popen[str]") -> psutil.Process:
    assert parent.stdout
    for line in parent.stdout:
        if line.startswith("painter "):
            _, pid, lanes = line.split(maxsplit=2)
            assert lanes == "['paint.now', 'paint.pages']\n"
            return psutil.Process(int(pid))
    raise AssertionError("the parent has ended")


def test_a_painter_that_ends_is_replaced_and_all_finish_with_their_parent(parent: "subprocess.Popen[str]") -> None:
    painters = [next_painter(parent) for _ in range(2)]
    painters[0].kill()
    painters.append(next_painter(parent))
    parent.send_signal(signal.SIGTERM)
    said, _ = parent.communicate(timeout=SECONDS)
    assert parent.returncode == 0
    assert said.count("finished") == 2
    assert not any(painter.is_running() for painter in painters)


def test_painters_end_when_their_parent_was_killed(parent: "subprocess.Popen[str]") -> None:
    painters = [next_painter(parent) for _ in range(2)]
    parent.kill()
    eventually(lambda: not any(painter.is_running() for painter in painters), SECONDS, "they end")
