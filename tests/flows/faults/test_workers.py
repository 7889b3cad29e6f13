"""Workers that are killed, paused, or that always fail."""

import os
import signal
from itertools import pairwise
from time import monotonic

import pytest

from tests.support.crowd import Crowd
from tests.support.stack import Stack, eventually

from ..slow.slow_content import SlowContent
from .conftest import BOUND_SECONDS, wait_until_clients_wait

pytestmark = pytest.mark.no_database


def test_a_pool_child_killed_half_way_costs_no_client_its_content(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"] * 50, patient=True)
    os.kill(stack.wait_for(name)["pid"], signal.SIGKILL)
    stack.open_gate(name)
    assert {visit.body for visit in waiting.result(BOUND_SECONDS)} == {SlowContent(name).body}
    assert stack.executions(name) == 2


def test_a_whole_worker_killed_half_way_costs_no_client_its_content(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"] * 50, patient=True)
    stack.wait_for(name)
    stack.kill("paint-now", children=True)
    stack.open_gate(name)
    assert {visit.body for visit in waiting.result(BOUND_SECONDS)} == {SlowContent(name).body}
    assert stack.executions(name) == 2


def test_work_that_waits_in_the_queue_outlives_its_worker(stack: Stack, crowd: Crowd, name: str) -> None:
    stack.freeze("paint-now", children=True)
    waiting = crowd.send([f"/slow/{name}{number}" for number in range(50)], patient=True)
    wait_until_clients_wait(stack, 50)
    stack.kill("paint-now", children=True)
    visits = waiting.result(BOUND_SECONDS)
    assert [visit.body for visit in visits] == [SlowContent(f"{name}{number}").body for number in range(50)]


def test_work_that_kills_its_worker_every_time_ends_in_502_after_two_attempts(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    visits = crowd.send([f"/slow/{name}?behaviour=die"] * 20, patient=True).result(BOUND_SECONDS)
    assert {visit.status for visit in visits} == {502}
    assert all(int(visit.answers[-1].headers["Retry-After"]) >= 1 for visit in visits)
    assert stack.executions(name) == 2


def test_a_painter_that_always_raises_is_tried_once_per_step_of_the_back_off(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    until = monotonic() + 5
    while monotonic() < until:
        visits = crowd.send([f"/slow/{name}?behaviour=raise"] * 10).result(BOUND_SECONDS)
        assert {visit.status for visit in visits} == {502}
        assert all(int(visit.answers[-1].headers["Retry-After"]) >= 1 for visit in visits)
    starts = [entry["time"] for entry in stack.events(name)]
    assert len(starts) >= 2
    assert int(stack.state.hget(f"retry:{{0}}:failure:slow:{name}:0", "count") or 0) == len(starts)
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 1  # no step is shorter


def test_a_paused_worker_cannot_overwrite_newer_content(stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?behaviour=numbered&gated=1"
    waiting = crowd.send([address] * 20, patient=True)
    paused = stack.wait_for(name)
    os.kill(paused["pid"], signal.SIGSTOP)
    try:
        newer = stack.wait_for(name, count=2)  # its lease has lapsed
        stack.open_gate(name)
        assert {visit.body for visit in waiting.result(BOUND_SECONDS)} == {f"{name} 2".encode()}
    finally:
        os.kill(paused["pid"], signal.SIGCONT)
    eventually(lambda: stack.metric("tarry_preparations_total", task="slow", outcome="superseded"), 10, "fenced off")
    assert stack.executions(name, "finish") == 2
    assert stack.cache.hget(f"retry:content:slow:{name}", "token") == str(newer["token"]).encode()
    assert crowd.visit(address).body == f"{name} 2".encode()


def test_content_evicted_as_it_is_stored_is_not_prepared_in_a_loop(stack: Stack, crowd: Crowd, name: str) -> None:
    visits = crowd.send([f"/slow/{name}?behaviour=evict&fresh=0&stale=0"] * 20).result(BOUND_SECONDS)
    assert all(visit.is_honest_refusal for visit in visits)
    assert all(len(visit.answers) <= 3 for visit in visits)
    assert stack.executions(name) == 1


def test_content_that_the_cache_refuses_is_a_failure(stack: Stack, crowd: Crowd, name: str) -> None:
    limit = stack.cache.config_get("maxmemory")["maxmemory"] or 0
    stack.cache.config_set("maxmemory", 1)
    try:
        visit = crowd.visit(f"/slow/{name}")
    finally:
        stack.cache.config_set("maxmemory", limit)
    assert visit.status == 502
    assert stack.executions(name) == 1
