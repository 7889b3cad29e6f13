"""The end of a whole run, and the next run, which takes up the rest."""

import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from ..support.crowd import Crowd
from ..support.processes import wait_until_ended
from ..support.stack import Stack, eventually
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database

END_SECONDS = 40


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A run that tests may end: the next one starts it again."""
    with Stack(SMALL="1", RETRY_LEASE_SECONDS="3") as running:
        yield running


@pytest.fixture(autouse=True)
def _running(stack: Stack) -> None:
    if stack.health()[0] == 0:
        stack.start()
    stack.open_all_gates()  # of a test that failed


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


def test_an_interrupt_answers_everyone_and_ends_everything(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"] * 20, patient=True)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 20, 20, "all wait")
    stack.open_gate(name)
    assert stack.shut_down(signal.SIGINT, END_SECONDS) == []
    assert all(visit.answers[1].status == 302 for visit in waiting.result(20))


def test_a_closed_terminal_ends_everything(stack: Stack) -> None:
    assert stack.shut_down(signal.SIGHUP, END_SECONDS) == []


def test_no_beat_goes_on_beside_that_of_the_next_worker(stack: Stack) -> None:
    worker = psutil.Process(stack.pid("work"))
    eventually(worker.children, 20, "beat is there")
    beat = worker.children()
    worker.kill()
    assert wait_until_ended(beat, 10) == []
    eventually(lambda: stack.pid("work") != worker.pid and len(stack.pids("work")) > 1, 20, "the next one has a beat")


def test_nothing_outlives_a_process_manager_that_is_killed_not_even_work(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.send([f"/slow/{name}?gated=1"])
    stack.wait_for(name)
    assert stack.shut_down(signal.SIGKILL, END_SECONDS) == []
