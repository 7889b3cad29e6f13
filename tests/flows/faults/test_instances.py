"""The waiting instance reloaded and shut down with a thousand clients; every process killed once."""

import os
import signal
import time
from concurrent.futures import Future
from urllib.parse import urlsplit

import psutil
import pytest

from tests.flows.crowd import Crowd, Visit
from tests.flows.faults.conftest import BOUND_SECONDS, HOT_SECONDS, wait_until_clients_wait
from tests.flows.slow.wishes import Wish
from tests.flows.stack import Stack, eventually

CLIENTS = 1000


@pytest.fixture
def waiting(stack: Stack, crowd: Crowd, name: str) -> "Future[list[Visit]]":
    """A thousand clients that wait for one content."""
    sent = crowd.send([f"/slow/{name}?gated=1"] * CLIENTS)
    wait_until_clients_wait(stack, CLIENTS)
    return sent


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
    assert {visit.body for visit in visits} == {Wish(name).body}
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
    assert crowd.visit(f"/slow/{name}").body == Wish(name).body


def test_a_waiting_instance_that_is_killed_loses_nobody(
    stack: Stack, crowd: Crowd, name: str, waiting: "Future[list[Visit]]"
) -> None:
    os.kill(worker_of(stack, "retry"), signal.SIGKILL)
    wait_until_clients_wait(stack, CLIENTS)
    stack.open_gate(name)
    assert {visit.body for visit in waiting.result(BOUND_SECONDS)} == {Wish(name).body}


def test_the_front_answers_what_it_has_seen_while_main_is_away(stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}"
    crowd.visit(address)
    assert "nginx; hit" in crowd.visit(address).answers[-1].cache_status
    stack.stop("main")
    try:
        time.sleep(HOT_SECONDS)
        seen, cold = crowd.visit(address), crowd.visit(f"/slow/{name}cold")
    finally:
        stack.begin("main")
    assert seen.body == Wish(name).body
    assert "nginx; hit; detail=stale" in seen.answers[-1].cache_status
    assert cold.is_honest_refusal
    assert crowd.insist([f"/slow/{name}cold"])[0].body == Wish(f"{name}cold").body


FAMILIES = ("main", "retry", "nginx", "work", "paint-now", "paint-later")


@pytest.mark.parametrize(
    ("victim", "part"),
    [("beat", "parent"), *((victim, part) for victim in FAMILIES for part in ("parent", "children", "all"))],
)
def test_a_killed_process_is_survived(victim: str, part: str, stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?gated=1"
    waiting = crowd.send([address] * 50)
    wait_until_clients_wait(stack, 50)
    family = stack.pids(victim)
    killed = {"parent": family[:1], "children": family[1:], "all": family}[part]
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    stack.open_gate(name)
    visits = waiting.result(BOUND_SECONDS)
    if victim != "nginx":  # whose clients lose their connections with it
        assert all(visit.status == 200 or visit.is_honest_refusal for visit in visits)
    stack.wait_until_healthy()
    assert {visit.body for visit in crowd.insist([address] * 50)} == {Wish(name).body}
    crowd.insist([f"/slow/{name}fresh"])
    eventually(lambda: not any(map(psutil.pid_exists, killed)), 15, "the killed are gone")
    if part != "children":
        eventually(lambda: not any(map(psutil.pid_exists, family)), 15, "nobody is left behind")


def test_lost_work_is_found_by_a_sweeper_that_was_killed_itself(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"] * 50)
    painter = stack.wait_for(name)["pid"]
    stack.kill("beat")
    stack.kill("work", children=True)
    os.kill(painter, signal.SIGKILL)
    stack.open_gate(name)
    assert {visit.body for visit in waiting.result(BOUND_SECONDS)} == {Wish(name).body}
    assert stack.executions(name) == 2
