"""The smallest set of processes, with little patience and room for few: it works, and says when it does not."""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
import requests

from ..support.crowd import Crowd, Visit
from ..support.layers import colour_of, load_line
from ..support.stack import Stack, eventually
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database

WAIT_SECONDS = 2
MAX_WAITS = 2
BACKLOG = 5
END_SECONDS = 40


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """The site of a small machine."""
    with Stack(
        SMALL="1",
        FEEDS_PUSH="",
        DEFAULT_RETRY_TIMEOUT=str(WAIT_SECONDS),
        RETRY_MAX_WAITS=str(MAX_WAITS),
        BACKLOG_LIMIT=str(BACKLOG),
    ) as running:
        yield running


@pytest.fixture
def other_crowd(stack: Stack) -> Iterator[Crowd]:
    """Clients of another address."""
    with Crowd(stack.base_url, "127.0.0.9") as clients:
        yield clients


def test_a_small_site_paints_a_tile(stack: Stack, crowd: Crowd, tmp_path: Path) -> None:
    visit = crowd.visit(load_line(stack, "line", tmp_path))
    assert visit.statuses == [302, 302, 200]
    assert colour_of(visit.body) == "green"


def test_a_site_that_no_hub_can_reach_says_so_once_at_its_start_and_in_the_admin(stack: Stack) -> None:
    note = f"Feeds are polled only: hubs and clouds cannot reach PUBLIC_URL ({stack.base_url}) to announce news."
    eventually(lambda: note in stack.output.read_text(), 60, "the start says so")
    started = stack.output.read_text()
    assert started.count("polled only") == 1
    password = re.search(r"password: (\S+)", started)
    assert password
    session, login = requests.Session(), f"{stack.base_url}/admin/login/?next=/admin/feeds/feed/"
    session.get(login, timeout=10)
    form = {"username": "admin", "password": password[1], "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    page = session.post(login, form, headers={"Referer": login}, timeout=10)
    assert page.text.count(note) == 1


def test_a_small_site_refreshes_stale_content(stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?behaviour=numbered&fresh=0&stale=600"
    crowd.visit(address)
    eventually(lambda: crowd.visit(address).body != f"{name} 1".encode(), 15, "the refresh shows")


def test_a_client_that_has_waited_often_enough_is_told_to_come_again(stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?gated=1"
    visit = crowd.visit(address)
    assert visit.statuses == [302] * MAX_WAITS + [503]
    assert visit.is_honest_refusal
    assert visit.answers[-1].headers["Cache-Control"] == "no-store"
    stack.open_gate(name)  # the preparation has gone on
    stack.wait_for(name, "finish")
    assert crowd.visit(address).body == SlowContent(name).body
    assert stack.executions(name) == 1


def fill_lane(
    stack: Stack, crowd: Crowd, other_crowd: Crowd, name: str, *, address: str = "/slow/", lane: str = "paint.now"
) -> list[Future[list[Visit]]]:
    """Holds the worker, and queues as much as the lane takes: one client gets at most a share of it."""
    queued_key = f"retry:{{0}}:queued:{lane}"
    held = crowd.send([f"/slow/{name}held?gated=1"])
    stack.wait_for(f"{name}held")
    queued = [held, crowd.send([f"{address}{name}{number}" for number in range(BACKLOG - 1)])]
    eventually(lambda: stack.state.zcard(queued_key) == BACKLOG - 1, 10, "one client's share is full")
    queued.append(other_crowd.send([f"{address}{name}other"]))
    eventually(lambda: stack.state.zcard(queued_key) == BACKLOG, 10, "the lane is full")
    return queued


def test_a_full_backlog_is_refused_and_leaves_no_claim(
    stack: Stack, crowd: Crowd, other_crowd: Crowd, name: str
) -> None:
    queued = fill_lane(stack, crowd, other_crowd, name)
    refused = crowd.visit(f"/slow/{name}refused")
    assert refused.statuses == [503]
    assert refused.is_honest_refusal
    assert "backlog full" in refused.answers[-1].cache_status
    assert not stack.state.exists(f"retry:{{0}}:claim:slow:{name}refused:0")
    stack.open_gate(f"{name}held")
    assert all(
        visit.status == 200 or visit.is_honest_refusal
        for visit in [visit for sent in queued for visit in sent.result(20)]
    )
    assert stack.executions(f"{name}refused") == 0
    assert crowd.insist([f"/slow/{name}refused"])[0].body == SlowContent(f"{name}refused").body


def test_a_busy_search_is_a_page_for_people_and_a_problem_for_programs(
    stack: Stack, crowd: Crowd, other_crowd: Crowd, name: str
) -> None:
    search = "/feeds/?q="
    queued = fill_lane(stack, crowd, other_crowd, name, address=search, lane="paint.pages")
    refused = [crowd.visit(f"{search}{name}refused", headers={"Accept": kind}) for kind in ("text/html", "*/*")]
    stack.open_gate(f"{name}held")
    assert all(visit.is_honest_refusal for visit in refused)
    types = [visit.answers[-1].headers["Content-Type"] for visit in refused]
    assert types == ["text/html; charset=utf-8", "application/problem+json"]
    assert all(visit.status == 200 or visit.is_honest_refusal for sent in queued for visit in sent.result(20))


def test_the_wait_that_a_full_backlog_names_grows_with_what_is_ahead(
    stack: Stack, crowd: Crowd, other_crowd: Crowd, name: str
) -> None:
    stack.state.mset({"retry:{0}:duration:paint.now": 3000, f"retry:{{0}}:duration:slow:{name}": 4000})
    queued = fill_lane(stack, crowd, other_crowd, name)
    refused = crowd.visit(f"/slow/{name}refused?kind={name}")
    stack.open_gate(f"{name}held")
    assert refused.answers[-1].headers["Retry-After"] == str(BACKLOG * 3 + 4)
    assert all(
        visit.status == 200 or visit.is_honest_refusal
        for visit in [visit for sent in queued for visit in sent.result(20)]
    )


def test_a_client_waits_a_second_time_and_gets_its_content(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"])
    eventually(lambda: crowd.visits and len(crowd.visits[0].answers) == MAX_WAITS, 20, "the second wait begins")
    stack.open_gate(name)
    [visit] = waiting.result(20)
    assert (visit.statuses, visit.body) == ([302] * (MAX_WAITS + 1) + [200], SlowContent(name).body)


def test_an_interrupt_answers_everyone_and_ends_everything(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"] * 20, patient=True)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 20, 20, "all wait")
    stack.open_gate(name)
    assert stack.shut_down(signal.SIGINT, END_SECONDS) == []
    assert all(visit.answers[1].status == 302 for visit in waiting.result(20))
