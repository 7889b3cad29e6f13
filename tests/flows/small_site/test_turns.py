"""One worker for all lanes: rounds of clients, the next turn, abandoned work, and old work."""

import http.client
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.flows.slow.slow_content import SlowContent
from tests.support.backlog import Backlog, is_clear
from tests.support.crowd import Crowd
from tests.support.stack import Stack, eventually

pytestmark = pytest.mark.no_database

LANES = ("paint.now", "paint.pages", "paint.refresh", "paint.warm")
LONG_AGO = 1
LOWEST = 15
"""Fewer pieces of work than these make a stream go on."""


@pytest.fixture(autouse=True)
def _cleared(stack: Stack) -> Iterator[None]:
    yield
    stack.open_all_gates()
    for lane in LANES:
        stack.state.delete(f"retry:{{0}}:duration:{lane}")
    eventually(lambda: is_clear(stack, LANES), 60, "nothing waits")


def lengthen(stack: Stack, lane: str) -> None:
    """Makes each piece of work in the lane seem to take a minute, and the sweeper seem to have passed for long."""
    stack.state.set(f"retry:{{0}}:duration:{lane}", 60_000)
    stack.state.set("retry:{0}:swept", LONG_AGO, ex=10)


def asked(stack: Stack, name: str) -> int:
    """The time of the claim's last request, in Redis' milliseconds; 0 without a claim."""
    return int(stack.state.hget(f"retry:{{0}}:claim:slow:{name}:0", "asked") or 0)


def forget_who_asked(stack: Stack, name: str) -> None:
    stack.state.hset(f"retry:{{0}}:claim:slow:{name}:0", "asked", LONG_AGO)


def queued(stack: Stack, crowd: Crowd, names: list[str]) -> None:
    """Clients ask for cold contents, and wait."""
    crowd.send([f"/slow/{one}" for one in names])
    eventually(lambda: all(asked(stack, one) for one in names), 10, "all are claimed")


def test_a_client_of_much_content_delays_content_of_others_by_a_round(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.send([f"/slow/{name}held?gated=1"])
    stack.wait_for(f"{name}held")
    flood = [f"{name}flood{number}" for number in range(60)]
    queued(stack, crowd, flood)
    others = [f"{name}other{number}" for number in range(4)]
    with Crowd(stack.base_url, "127.0.0.9") as other_clients:
        waiting = other_clients.send([f"/slow/{one}" for one in others])
        eventually(lambda: all(asked(stack, one) for one in others), 10, "all are claimed")
        stack.open_gate(f"{name}held")
        assert [visit.body for visit in waiting.result(30)] == [SlowContent(one).body for one in others]
    last = max(stack.wait_for(one)["time"] for one in others)
    eventually(lambda: is_clear(stack, LANES), 60, "all have their content")
    assert sum(stack.wait_for(one)["time"] < last for one in flood) <= len(others) + 1


def test_what_is_waited_for_comes_next(stack: Stack, crowd: Crowd, name: str) -> None:
    refreshes = Backlog(stack, "paint.refresh", name, 200)
    refreshes.hold(crowd)
    later_ms = int((time.time() + 60) * 1000)
    stack.state.hset("retry:{0}:started", "paint.refresh", later_ms)  # none ages, however long queueing takes
    refreshes.queue(crowd)
    cold, last = f"{name}cold", refreshes.names[-1]
    refreshes.lose(last)
    waiting = crowd.send([f"/slow/{cold}", f"{refreshes.address(last)}&html=0"])
    eventually(lambda: stack.state.zcard("retry:{0}:queued:paint.now") == 2, 10, "both stand in the fast lane")
    refreshes.let_go()
    assert [visit.body for visit in waiting.result(30)] == [SlowContent(cold).body, SlowContent(last).body]
    for one in (cold, last):  # the worker may have had one message of a refresh already; the two begin in any order
        assert refreshes.begun(stack.wait_for(one)["time"]) <= 2


def test_work_that_nobody_waits_for_any_more_is_skipped(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.send([f"/slow/{name}held?gated=1"])
    stack.wait_for(f"{name}held")
    left = [f"{name}left{number}" for number in range(5)]
    queued(stack, crowd, left)
    crowd.leave()
    eventually(lambda: stack.metric("tarry_waiting_clients") == 0, 10, "all have left")
    patient = crowd.send([f"/slow/{name}patient"])
    eventually(lambda: asked(stack, f"{name}patient"), 10, "it is claimed")
    skipped = stack.metric("tarry_preparations_total", outcome="skipped")
    lengthen(stack, "paint.now")
    for one in [*left, f"{name}patient"]:
        forget_who_asked(stack, one)
    eventually(lambda: asked(stack, f"{name}patient") > LONG_AGO, 10, "the waiting instance asks for its client")
    stack.open_gate(f"{name}held")
    assert patient.result(30)[0].body == SlowContent(f"{name}patient").body
    eventually(lambda: is_clear(stack, LANES), 30, "all had their turn")
    assert [stack.executions(one) for one in left] == [0] * 5
    assert stack.metric("tarry_preparations_total", outcome="skipped") - skipped == 5
    assert crowd.visit(f"/slow/{left[0]}").body == SlowContent(left[0]).body  # the next request has it prepared anew
    assert stack.executions(left[0]) == 1


def test_a_client_that_comes_to_wait_for_what_was_skipped_begins_it_anew(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.send([f"/slow/{name}held?gated=1"])
    stack.wait_for(f"{name}held")
    connection = http.client.HTTPConnection(stack.host, timeout=10)
    connection.request("GET", f"/slow/{name}")
    to_wait = connection.getresponse().headers["Location"]
    connection.close()
    lengthen(stack, "paint.now")
    forget_who_asked(stack, name)
    stack.open_gate(f"{name}held")
    eventually(lambda: not asked(stack, name), 10, "it was skipped")
    assert stack.executions(name) == 0
    visit = crowd.visit(to_wait)
    assert visit.statuses == [302, 302, 302, 200]
    assert visit.body == SlowContent(name).body


@dataclass(slots=True)
class Stream:
    """Clients that ask for cold contents, so that there is always work with a waiting client."""

    stack: Stack
    crowd: Crowd
    name: str
    sent: int = 0
    fewest: int = LOWEST

    def flow(self) -> None:
        """Sends more of them when few are left."""
        left = int(self.stack.state.zcard("retry:{0}:queued:paint.now"))
        self.fewest = min(self.fewest, left)
        if left < LOWEST:
            names = [f"{self.name}{number}" for number in range(self.sent, self.sent + LOWEST)]
            self.crowd.send([f"/slow/{one}?seconds=0.1" for one in names])
            self.sent += LOWEST
            eventually(lambda: all(asked(self.stack, one) for one in names[-1:]), 10, "they are claimed")


def test_slower_lanes_get_their_turn_while_there_is_always_something_to_wait_for(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    crowd.send([f"/slow/{name}held?gated=1"])
    stack.wait_for(f"{name}held")
    stream = Stream(stack, crowd, f"{name}steady")
    for _ in range(2):
        stream.flow()
    stream.fewest = LOWEST
    later = [Backlog(stack, lane, f"{name}{lane}", 1) for lane in ("paint.refresh", "paint.warm")]
    for backlog in later:
        backlog.queue(crowd)
    aged = stack.metric("tarry_republished_total", reason="aged")
    stack.open_gate(f"{name}held")

    def all_begun() -> bool:
        stream.flow()
        return all(stack.executions(backlog.names[0]) for backlog in later)

    eventually(all_begun, 60, "the refresh and the pre-warming begin")
    assert stream.fewest > 0
    assert stack.metric("tarry_republished_total", reason="aged") - aged == 3  # the pre-warming twice
