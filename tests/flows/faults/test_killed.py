"""Every process killed once, alone and with its family: the site recovers, and all clients are answered."""

import os
import signal
import time

import pytest

from tests.support.crowd import Crowd
from tests.support.processes import PROCESSES, STORES, family, wait_until_ended
from tests.support.stack import Stack, eventually

from ..slow.slow_content import SlowContent
from .conftest import BOUND_SECONDS, HOT_SECONDS, wait_until_clients_wait

pytestmark = pytest.mark.no_database

BACK_SECONDS = 10
HEALTHY_SECONDS = 120
"""A busy machine gives the worker of pre-warmings little time to start again: it has only idle processors."""
VICTIMS = [
    *((name, part) for name in ("main", "retry", "nginx") for part in ("parent", "children")),
    ("paint-now", "parent"),
    *((name, "all") for name in PROCESSES if name not in STORES),  # of those test_redis tells
]


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
    assert seen.body == SlowContent(name).body
    assert "nginx; hit; detail=stale" in seen.answers[-1].cache_status
    assert cold.is_honest_refusal
    assert crowd.insist([f"/slow/{name}cold"])[0].body == SlowContent(f"{name}cold").body


@pytest.mark.parametrize(("victim", "part"), VICTIMS)
def test_a_killed_process_is_survived(victim: str, part: str, stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?gated=1"
    waiting = crowd.send([address] * 50, patient=True)
    wait_until_clients_wait(stack, 50)
    members = family(stack.pid(victim))
    killed = {"parent": members[:1], "children": members[1:], "all": members}[part]
    for process in killed:
        process.kill()
    stack.open_gate(name)
    visits = waiting.result(BOUND_SECONDS)
    if victim != "nginx":  # whose clients lose their connections with it
        assert all(visit.status == 200 or visit.is_honest_refusal for visit in visits)
    if victim == "nginx" and part == "parent":  # its workers go on for a moment, and break connections as they end
        assert wait_until_ended(members, 15) == []
    stack.wait_until_healthy(HEALTHY_SECONDS)
    if part != "children":
        eventually(lambda: stack.pid(victim) != members[0].pid, BACK_SECONDS, f"{victim} is back")
    assert {visit.body for visit in crowd.insist([address] * 50)} == {SlowContent(name).body}
    crowd.insist([f"/slow/{name}fresh"])
    left_behind = wait_until_ended(killed if part == "children" else members, 15)
    assert left_behind == []


def test_lost_work_is_found_by_a_sweeper_that_was_killed_itself(stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?gated=1"
    crowd.send([address] * 50, patient=True)
    painter = stack.wait_for(name)["pid"]
    stack.kill("beat")
    stack.kill("work", children=True)
    os.kill(painter, signal.SIGKILL)
    stack.open_gate(name)
    stack.wait_for(name, "finish", seconds=BOUND_SECONDS)
    assert {visit.body for visit in crowd.insist([address] * 50)} == {SlowContent(name).body}
    assert stack.executions(name) == 2
