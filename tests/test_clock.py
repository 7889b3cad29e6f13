"""The clock that bounds of other tests are measured with."""

import os
import signal
import subprocess
import sys
import time

from .support import clock

SCRIPT = """
import sys, time
from tests.support import clock
began, ran = time.monotonic(), clock.seconds()
print("begun", flush=True)
sys.stdin.readline()
print(time.monotonic() - began, clock.seconds() - ran)
"""


def test_waiting_counts() -> None:
    began = clock.seconds()
    while clock.seconds() - began < 0.3:
        time.sleep(0.02)


def test_computing_counts_though_nobody_else_has_a_turn() -> None:
    began, used = clock.seconds(), time.process_time()
    _ = 7**1_000_000  # one operation
    used = time.process_time() - used
    assert clock.seconds() - began > used / 2


def test_a_moment_in_which_the_process_stood_still_does_not_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin
        assert running.stdout
        running.stdout.readline()
        os.kill(running.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(running.pid, signal.SIGCONT)
        passed, ran = map(float, running.communicate("\n")[0].split())
    assert passed >= 1
    assert ran < passed - 0.9
