"""The end of a whole run, and the next run, which takes up the rest."""

import time

import psutil
import pytest

from tests.flows.slow.slow_content import SlowContent
from tests.support.crowd import Crowd
from tests.support.processes import wait_until_ended
from tests.support.stack import Stack, eventually

pytestmark = pytest.mark.no_database


def test_work_that_was_claimed_before_a_crash_is_done_after_it(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.send([f"/slow/{name}?gated=1"])
    stack.wait_for(name)
    time.sleep(1.5)  # Redis writes to its disk every second
    stack.crash()
    stack.open_gate(name)
    stack.start()
    stack.wait_for(name, "finish", seconds=40)
    assert crowd.insist([f"/slow/{name}"])[0].body == SlowContent(name).body
    assert stack.executions(name) == 2


def test_no_beat_goes_on_beside_that_of_the_next_worker(stack: Stack) -> None:
    worker = psutil.Process(stack.pid("work"))
    eventually(worker.children, 20, "beat is there")
    beat = worker.children()
    worker.kill()
    assert wait_until_ended(beat, 10) == []
    eventually(lambda: stack.pid("work") != worker.pid and len(stack.pids("work")) > 1, 20, "the next one has a beat")
