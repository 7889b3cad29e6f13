"""Each of the two Redis servers emptied, killed, frozen or full, while many clients ask for cold content."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from project.nginx_config import MAIN_TIMEOUT_SECONDS
from retry.claims import FINISHED_CHANNEL
from tests.support.crowd import Crowd, Visit
from tests.support.layers import load_line
from tests.support.stack import Stack, eventually

from ..slow.slow_content import SlowContent
from .conftest import BOUND_SECONDS, IMPATIENT, wait_until_clients_wait

pytestmark = pytest.mark.no_database

MAIN_SECONDS = 1.5
"""Main answers within this, whatever happens to Redis; on a slow machine within three times what it usually takes."""
CLIENTS = 60
SERVERS = ("state", "cache")
Send = Callable[[str], "Future[list[Visit]]"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting clients, and the seconds of main's answers."""

    sent: "Future[list[Visit]]"
    main_seconds: float


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A site that waits for Redis as long as sites do by default."""
    with Stack(**IMPATIENT, RETRY_REDIS_TIMEOUT="0.3") as running:
        yield running


@pytest.fixture(scope="module")
def main_seconds(stack: Stack) -> float:
    """The seconds of the answers to as many clients, measured without a fault."""
    with Crowd(stack.base_url) as crowd:
        usual = send_cold(crowd, "usual").result(BOUND_SECONDS)
    assert {visit.status for visit in usual} <= {200, 503}
    return min(MAIN_TIMEOUT_SECONDS, max(MAIN_SECONDS, 3 * max(visit.slowest_of_main for visit in usual)))


@pytest.fixture
def waiting(stack: Stack, crowd: Crowd, name: str, main_seconds: float) -> Waiting:
    """Clients that wait for as many gated contents."""
    sent = crowd.send([f"/slow/{name}w{number}?gated=1&kind=cold" for number in range(CLIENTS)], patient=True)
    wait_until_clients_wait(stack, CLIENTS)
    return Waiting(sent, main_seconds)


def send_cold(crowd: Crowd, name: str) -> "Future[list[Visit]]":
    return crowd.send([f"/slow/{name}{number}?seconds=0.02&kind=cold" for number in range(CLIENTS)])


def open_gates(stack: Stack, name: str) -> None:
    for number in range(CLIENTS):
        stack.open_gate(f"{name}w{number}")


def assert_main_never_waited(visits: list[Visit], main_seconds: float) -> None:
    """Every answer of main came in time: content, a redirect, or an honest refusal."""
    for visit in visits:
        assert visit.error == ""
        assert set(visit.statuses) <= {200, 302, 503}
        assert visit.status == 200 or visit.is_honest_refusal
    assert max(visit.slowest_of_main for visit in visits) <= main_seconds


def assert_recovers(stack: Stack, crowd: Crowd, name: str) -> None:
    """New content comes to every client, and every part does its work again."""
    stack.wait_until_healthy()
    visits = crowd.insist([f"/slow/{name}after{number}" for number in range(CLIENTS)])
    assert [visit.body for visit in visits] == [SlowContent(f"{name}after{number}").body for number in range(CLIENTS)]
    stale = f"/slow/{name}stale?behaviour=numbered&fresh=0&stale=60"
    crowd.insist([stale])
    eventually(lambda: crowd.visit(stale).body != f"{name}stale 1".encode(), 15, "stale content is refreshed")
    eventually(lambda: stack.state.pubsub_numsub(FINISHED_CHANNEL)[0][1] == 1, 15, "the waiting instance listens")
    stack.state.zadd("retry:{0}:claims", {"nothing": 1})
    eventually(lambda: stack.state.zscore("retry:{0}:claims", "nothing") is None, 15, "the sweeper sweeps")


@pytest.mark.parametrize("server", SERVERS)
def test_a_flushed_server_is_survived(server: str, stack: Stack, crowd: Crowd, name: str, waiting: Waiting) -> None:
    asking = send_cold(crowd, name)
    getattr(stack, server).flushall()
    open_gates(stack, name)
    assert_main_never_waited(asking.result(BOUND_SECONDS) + waiting.sent.result(BOUND_SECONDS), waiting.main_seconds)
    assert_recovers(stack, crowd, name)


@pytest.mark.parametrize("server", SERVERS)
def test_a_killed_server_is_survived(server: str, stack: Stack, crowd: Crowd, name: str, waiting: Waiting) -> None:
    stack.kill(server)
    asking = send_cold(crowd, name)
    open_gates(stack, name)
    assert_main_never_waited(asking.result(BOUND_SECONDS) + waiting.sent.result(BOUND_SECONDS), waiting.main_seconds)
    assert_recovers(stack, crowd, name)


@pytest.mark.parametrize("server", SERVERS)
def test_a_frozen_server_is_survived(server: str, stack: Stack, crowd: Crowd, name: str, waiting: Waiting) -> None:
    under_way = send_cold(crowd, f"{name}early")
    stack.freeze(server)
    try:
        frozen = send_cold(crowd, name).result(BOUND_SECONDS)
        open_gates(stack, name)
        returned = waiting.sent.result(BOUND_SECONDS)  # the clock is enough to send them back
    finally:
        stack.thaw(server)
    assert all(visit.is_honest_refusal for visit in frozen)
    assert_main_never_waited(under_way.result(BOUND_SECONDS) + frozen + returned, waiting.main_seconds)
    assert_recovers(stack, crowd, name)


def test_while_the_cache_is_away_and_when_it_is_back_those_who_wait_for_content_in_preparation_get_it(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    addresses = [f"/slow/{name}w{number}?gated=1&kind=cold" for number in range(CLIENTS)]
    waiting = crowd.send(addresses)
    wait_until_clients_wait(stack, CLIENTS)
    stack.stop("cache")
    try:
        refused = crowd.visit(f"/slow/{name}cold")
        late = crowd.send(addresses)
        wait_until_clients_wait(stack, 2 * CLIENTS)
    finally:
        stack.begin("cache")
    open_gates(stack, name)
    assert refused.was_turned_away
    assert {visit.status for visit in [*waiting.result(BOUND_SECONDS), *late.result(BOUND_SECONDS)]} == {200}


def test_static_maps_that_are_waited_for_when_the_cache_dies_come_to_all(
    stack: Stack, crowd: Crowd, name: str, tmp_path: Path
) -> None:
    slug = load_line(stack, name[:12], tmp_path).split("/")[2]
    stack.freeze("paint-now", children=True)
    try:
        maps = [f"/staticmap?layers={slug}&center=0,{degrees}&zoom=4&size=200x200" for degrees in range(20)]
        waiting = crowd.send(maps)
        wait_until_clients_wait(stack, len(maps))
        stack.kill("cache")
    finally:
        stack.thaw("paint-now", children=True)
    assert {visit.status for visit in waiting.result(BOUND_SECONDS)} == {200}


@pytest.fixture
def full_state(stack: Stack) -> Iterator[Callable[[], None]]:
    """Takes all room from `state`. There is room again afterwards, at the latest."""
    limit = stack.state.config_get("maxmemory")["maxmemory"] or 0
    yield lambda: cast(None, stack.state.config_set("maxmemory", 1))
    stack.state.config_set("maxmemory", limit)


def test_a_full_state_refuses_new_work_and_serves_all_that_is_there_or_being_prepared(
    stack: Stack, crowd: Crowd, name: str, main_seconds: float, full_state: Callable[[], None]
) -> None:
    hot, stale = f"/slow/{name}hot", f"/slow/{name}stale?behaviour=numbered&fresh=0&stale=60"
    crowd.insist([hot, stale])
    running = crowd.send([f"/slow/{name}running?gated=1"] * 20, patient=True)
    stack.wait_for(f"{name}running")
    wait_until_clients_wait(stack, 20)
    full_state()
    cold = send_cold(crowd, name).result(BOUND_SECONDS)
    assert all(visit.was_turned_away and len(visit.answers) == 1 for visit in cold)
    kept = crowd.send([hot, stale, f"{hot}?past=nginx"] * 5).result(BOUND_SECONDS)
    assert {tuple(visit.statuses) for visit in kept} == {(200,)}
    assert_main_never_waited(cold + kept, main_seconds)
    eventually(lambda: stack.health()[0] == 503, 5, "the health check tells of it")
    stack.open_gate(f"{name}running")
    assert {visit.body for visit in running.result(BOUND_SECONDS)} == {SlowContent(f"{name}running").body}
    stack.state.config_set("maxmemory", 0)
    assert_recovers(stack, crowd, name)


def test_a_painter_outlives_a_broker_that_refuses_to_write(stack: Stack, crowd: Crowd, name: str) -> None:
    painter = stack.pid("paint-now")
    limit = stack.state.config_get("maxmemory")["maxmemory"] or 0
    stack.freeze("paint-now", children=True)
    try:
        waiting = crowd.send([f"/slow/{name}"] * 10)
        eventually(lambda: stack.metric("tarry_waiting_clients") >= 10, 20, "its work is published")
        stack.state.config_set("maxmemory", 1)
    finally:
        stack.thaw("paint-now", children=True)
    try:
        log = stack.data / "logs" / "paint-now.log"
        eventually(lambda: "command not allowed when used memory" in log.read_text(), 20, "the painter is refused")
    finally:
        stack.state.config_set("maxmemory", limit)
    assert {visit.body for visit in waiting.result(BOUND_SECONDS)} == {SlowContent(name).body}
    assert stack.pid("paint-now") == painter
