"""The end of a whole run, and the next run, which takes up the rest."""

import time

import pytest

from tests.flows.slow.slow_content import SlowContent
from tests.support.crowd import Crowd
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


def test_the_next_worker_has_a_beat_after_one_was_killed_with_its_own(stack: Stack) -> None:
    worker = stack.pid("work")
    assert stack.pids("work") == [worker]
    stack.kill("work")
    eventually(lambda: stack.pid("work") != worker, 20, "the next one runs")
    stack.state.delete("beat:active")
    eventually(lambda: stack.state.exists("beat:active"), 20, "it has a beat")


def test_the_beat_of_a_worker_outlives_a_crash_of_its_broker(stack: Stack) -> None:
    worker = stack.pid("work")
    stack.kill("state")
    stack.wait_until_healthy()
    stack.state.delete("beat:active")
    eventually(lambda: stack.state.exists("beat:active"), 20, "beat goes on")
    assert stack.pid("work") == worker
