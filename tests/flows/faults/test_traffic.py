"""Traffic as the real front sees it: counted exactly once, and popular content that never expires."""

import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from resources.traffic import log_files
from retry import contents
from tests.support.crowd import Crowd, Visit
from tests.support.layers import colour_of, load_line, write_speeds
from tests.support.stack import Stack, eventually

from .conftest import HOT_SECONDS, POPULAR

pytestmark = pytest.mark.no_database


def counted(stack: Stack, kind: str, group: str, **labels: str) -> float:
    return stack.metric("tarry_requests_total", kind=kind, group=group, **labels)


def ask_at_once(stack: Stack, path: str, number: int) -> None:
    """Sends so many requests on one connection without waiting between them. Raises unless all get 200."""
    request = f"HEAD {path} HTTP/1.1\r\nHost: {stack.host}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", stack.port), 30) as connection:
        connection.sendall(request * (number - 1) + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answers = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    if answers.count(b"HTTP/1.1 200 OK\r\n") != number:
        raise AssertionError(f"not all of {number} requests got 200")


def put_aside(stack: Stack) -> None:
    log, pid_file = stack.data / "logs" / "traffic.log", stack.runtime / "nginx" / "nginx.pid"
    eventually(log.exists, 5, "a log")
    assert log_files.rotate_log(log, 0, pid_file, time.time())


def kill_in_the_middle(stack: Stack) -> None:
    """SIGKILL to the process that runs the worker's tasks, as soon as it has counted some more lines."""
    before = position(stack)
    children = stack.pids("work")[1:]
    deadline = time.monotonic() + 30
    while position(stack) == before:
        assert time.monotonic() < deadline, "nothing is counted"
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def position(stack: Stack) -> list[bytes | None]:
    """The counted part of the log."""
    return [cast(bytes | None, stack.state.get(key)) for key in stack.state.keys("retry:{0}:counted:*")]


def test_every_request_is_counted_once_though_workers_are_killed_and_the_log_is_put_aside(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    path = f"/slow/{name}"
    asked = sum(answer.is_of_main for answer in crowd.visit(path).answers)
    stack.freeze("work", children=True)
    for number in range(20):  # some fifty slices
        ask_at_once(stack, path, 2500)
        asked += 2500
        if number in {7, 13}:
            put_aside(stack)
    stack.thaw("work", children=True)
    for _ in range(3):
        kill_in_the_middle(stack)
    stack.freeze("work", children=True)  # or all is counted before the look
    put_aside(stack)
    assert counted(stack, "slow", name) < asked
    stack.kill("work", children=True)
    eventually(lambda: counted(stack, "slow", name) >= asked, 60, f"{asked} requests are counted")
    crowd.visit(path)
    eventually(lambda: counted(stack, "slow", name) > asked, 30, "another pass")
    assert counted(stack, "slow", name) == asked + 1
    assert not counted(stack, "unreadable", "")


def test_answers_are_told_apart(stack: Stack, crowd: Crowd, tmp_path: Path) -> None:
    tile = load_line(stack, "counted", tmp_path)
    assert crowd.insist([tile])
    for _ in range(3):
        crowd.visit(tile)
    crowd.visit("/tiles/not-there/1/0/0.png")
    eventually(lambda: counted(stack, "tile", "counted", answer="hot") >= 3, 20, "hot answers")
    assert counted(stack, "tile", "counted", answer="waiting") >= 1
    assert counted(stack, "tile", "counted", answer="passed") >= 1
    assert counted(stack, "tile", "", answer="missing") == 1


def waits(visits: list[Visit]) -> int:
    """The number of them that had to wait for content."""
    return sum(visit.statuses != [200] for visit in visits)


def test_clients_of_popular_content_never_meet_its_expiry_and_others_do(stack: Stack, crowd: Crowd, name: str) -> None:
    """Content that is never served stale, and takes 2 s to prepare again; asked for 20 times, and once, a second."""
    popular, unpopular = (f"/slow/{name}{which}?fresh=10&stale=0" for which in ("popular", "unpopular"))
    for address in (popular, unpopular):
        crowd.visit(address)
    often: list[Visit] = []
    seldom: list[Visit] = []
    due = time.monotonic()
    until = due + 15
    while (now := time.monotonic()) < until:
        if now >= due:
            due = now + 1
            seldom.append(crowd.visit(f"{unpopular}&seconds=2"))
        often.append(crowd.visit(f"{popular}&seconds=2"))
        time.sleep(0.05)  # the traffic that is meant
    assert {visit.status for visit in [*often, *seldom]} == {200}
    assert waits(often) == 0
    assert waits(seldom) >= 1
    assert stack.executions(f"{name}popular") >= 2
    assert len(seldom) < POPULAR


def test_popular_content_comes_before_other_requests_after_a_loss_of_the_cache(
    stack: Stack, crowd: Crowd, name: str
) -> None:
    popular = f"{name}popular"
    crowd.visit(f"/slow/{popular}")
    ask_at_once(stack, f"/slow/{popular}", 2 * POPULAR)
    eventually(
        lambda: (stack.state.zscore("retry:{0}:popular:slow", f"slow:{popular}") or 0) >= POPULAR, 20, "it is popular"
    )
    stack.cache.flushall()
    stack.state.delete(f"retry:{{0}}:done:slow:{popular}:0")  # it was prepared a moment ago
    time.sleep(HOT_SECONDS + 1)  # nginx has it no longer
    held = [f"{name}held{number}" for number in range(4)]
    crowd.send([f"/slow/{one}?gated=1" for one in held])
    eventually(lambda: sum(stack.executions(one) for one in held) == 2, 20, "both painters are busy")
    one_off = [f"{name}one-off{number}" for number in range(20)]
    waiting = crowd.send([*(f"/slow/{one}" for one in one_off), f"/slow/{popular}"])
    eventually(lambda: int(stack.state.zcard("retry:{0}:queued:paint.now")) == 23, 20, "all wait")
    for one in held:
        stack.open_gate(one)
    assert {visit.status for visit in waiting.result(60)} == {200}
    began = stack.wait_for(popular, count=2)["time"]
    assert sum(stack.wait_for(one)["time"] < began for one in one_off) <= 1


def test_a_popular_tile_that_changed_is_painted_anew_before_anybody_asks(
    stack: Stack, crowd: Crowd, tmp_path: Path
) -> None:
    tile, key = load_line(stack, "painted", tmp_path), contents.content_name("tile:painted:1:0:0:png")
    assert crowd.visit(tile).status == 200
    ask_at_once(stack, tile, POPULAR)
    eventually(lambda: counted(stack, "tile", "painted", answer="hot") >= POPULAR - 1, 10, "the requests are counted")

    def painted() -> str:
        return colour_of(cast(bytes, stack.cache.hget(key, "body")))

    assert painted() == "green"
    stack.change_layers("load_speeds", "painted", str(write_speeds(tmp_path, "dark_red")))
    eventually(lambda: painted() == "dark_red", 10, "nobody asks for it, and it is painted anew")
