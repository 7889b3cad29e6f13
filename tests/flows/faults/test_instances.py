"""The waiting instance reloaded, shut down and killed with a thousand clients."""

import os
import signal
import time
from concurrent.futures import Future
from urllib.parse import urlsplit

import pytest
import requests

from tests.support.crowd import Crowd, Visit
from tests.support.stack import Stack, eventually

from ..slow.slow_content import SlowContent
from .conftest import BOUND_SECONDS, wait_until_clients_wait

pytestmark = pytest.mark.no_database

CLIENTS = 1000


@pytest.fixture
def waiting(stack: Stack, crowd: Crowd, name: str) -> "Future[list[Visit]]":
    """A thousand clients that wait for one content."""
    sent = crowd.send([f"/slow/{name}?gated=1"] * CLIENTS, patient=True)
    wait_until_clients_wait(stack, CLIENTS)
    return sent


def readiness(stack: Stack) -> int:
    return requests.get(f"{stack.base_url}/healthz/ready", timeout=10).status_code


def test_a_machine_whose_waiting_instance_hangs_or_is_gone_leaves_its_balancer(stack: Stack) -> None:
    stack.freeze("retry", children=True)
    try:
        eventually(lambda: readiness(stack) == 503, 30, "it is not ready")
    finally:
        stack.thaw("retry", children=True)
    eventually(lambda: [readiness(stack) for _ in range(10)] == [200] * 10, 30, "all of main knows that it is back")
    stack.stop("retry")
    try:
        eventually(lambda: [readiness(stack) for _ in range(10)] == [503] * 10, 10, "all of main knows that it is gone")
        refusal = requests.get(f"{stack.base_url}/healthz/ready", timeout=10)
        assert "waiting instance does not answer" in refusal.json()["detail"]
    finally:
        stack.begin("retry")
    eventually(lambda: [readiness(stack) for _ in range(10)] == [200] * 10, 30, "all of main knows that it is back")


def test_a_machine_is_ready_while_the_stores_are_away(stack: Stack) -> None:
    for store in ("state", "cache"):
        stack.stop(store)
    try:
        time.sleep(2)  # longer than an answer is kept
        assert {readiness(stack) for _ in range(10)} == {200}
    finally:
        for store in ("state", "cache"):
            stack.begin(store)


def worker_of(stack: Stack, name: str) -> int:
    return stack.pids(name)[1]


def was_sent_to_the_successor(visit: Visit) -> bool:
    return any(
        urlsplit(answer.headers["Location"]).path == "/retry_after" and "reload" in answer.cache_status
        for answer in visit.answers
        if answer.status == 302 and not answer.is_of_main
    )


def assert_none_is_lost(stack: Stack, crowd: Crowd, name: str, waiting: "Future[list[Visit]]") -> None:
    """All were answered before the content was there, wait again, and get it in the end."""
    eventually(lambda: all(map(was_sent_to_the_successor, crowd.visits)), 15, "all are sent to the successor")
    wait_until_clients_wait(stack, CLIENTS)
    stack.open_gate(name)
    visits = waiting.result(BOUND_SECONDS)
    assert {visit.status for visit in visits} == {200}
    assert {visit.body for visit in visits} == {SlowContent(name).body}
    assert stack.executions(name) == 1


def test_a_reload_loses_none_of_a_thousand_clients(
    stack: Stack, crowd: Crowd, name: str, waiting: "Future[list[Visit]]"
) -> None:
    stack.reload("retry")
    assert_none_is_lost(stack, crowd, name, waiting)


def test_a_worker_that_is_told_to_end_loses_none_of_a_thousand_clients(
    stack: Stack, crowd: Crowd, name: str, waiting: "Future[list[Visit]]"
) -> None:
    os.kill(worker_of(stack, "retry"), signal.SIGTERM)
    assert_none_is_lost(stack, crowd, name, waiting)


def test_clients_that_vanish_are_released_at_once(
    stack: Stack, crowd: Crowd, name: str, waiting: "Future[list[Visit]]"
) -> None:
    crowd.leave()
    eventually(lambda: stack.metric("tarry_waiting_clients") == 0, 5, "nobody waits")
    assert waiting.cancelled() or waiting.done()
    stack.open_gate(name)
    assert crowd.visit(f"/slow/{name}").body == SlowContent(name).body


def test_a_waiting_instance_that_is_killed_loses_nobody(
    stack: Stack, crowd: Crowd, name: str, waiting: "Future[list[Visit]]"
) -> None:
    os.kill(worker_of(stack, "retry"), signal.SIGKILL)
    wait_until_clients_wait(stack, CLIENTS)
    stack.open_gate(name)
    assert {visit.body for visit in waiting.result(BOUND_SECONDS)} == {SlowContent(name).body}
