"""The other deliveries on a whole site: the answers to clients; nothing is lost or mixed up on the way."""

import signal
from collections.abc import Iterator
from hashlib import sha256
from urllib.parse import unquote

import pytest

from ..support.crowd import Crowd, Visit
from ..support.stack import Stack, eventually
from .slow.slow_content import SlowContent

pytestmark = pytest.mark.no_database

WAIT_SECONDS = 5
END_SECONDS = 40
REDIRECTS = {"inline": 1, "internal": 0}
"""Those of `redirect`, which all other flows show, are two."""
NAMES = {
    "an umlaut": "%C3%BC",
    "Chinese": "%E6%97%A5%E6%9C%AC",
    "a question mark": "a%3Fb=c",
    "a percent sign": "a%25b",
    "an encoded percent sign": "a%2525b",
    "a plus": "a+b",
    "an encoded plus": "b%2Ba",
    "a hash": "a%23b",
    "a semicolon": "a;b=c",
    "quotes": "a%22b'c",
    "dots": "..a..",
    "a long name": "x" * 150,
}
FAILURES = {"refuse": 502, "missing": 404, "evict": 503}
QUERIES = ["", "?size=300&x=%20+%26", "?x=%C3%BC", "?x=a?b&x", "?x=" + "y" * 1500]


@pytest.fixture(scope="module", params=REDIRECTS)
def stack(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """A small site with this delivery."""
    with Stack(SMALL="1", RETRY_DELIVERY=request.param, DEFAULT_RETRY_TIMEOUT=str(WAIT_SECONDS)) as running:
        yield running


@pytest.fixture
def delivery(stack: Stack) -> str:
    return stack.environment["RETRY_DELIVERY"]


@pytest.fixture(autouse=True)
def _worker_is_free_again(stack: Stack, name: str) -> Iterator[None]:
    """No test leaves the one worker at a gate."""
    yield
    stack.open_gate(name)


def _was_sent_again(visit: Visit) -> bool:
    return any("reload" in answer.cache_status for answer in visit.answers)


def redirects(visit: Visit) -> int:
    assert all(status == 302 for status in visit.statuses[:-1])
    return len(visit.statuses) - 1


def test_cold_content_comes_with_as_many_redirects_as_promised(
    stack: Stack, crowd: Crowd, delivery: str, name: str
) -> None:
    visit = crowd.visit(f"/slow/{name}?seconds=0.3&size=20000")
    assert (visit.status, visit.body) == (200, SlowContent(name, size=20000).body)
    assert redirects(visit) == REDIRECTS[delivery]
    answer = visit.answers[-1]
    assert answer.headers["Content-Location"] == f"/slow/{name}?seconds=0.3&size=20000"
    assert answer.headers.getall("Content-Type") == ["text/plain; charset=utf-8"]
    assert answer.headers.getall("Access-Control-Allow-Origin") == ["*"]
    [cache_control] = answer.headers.getall("Cache-Control")
    assert cache_control == "no-store" if answer.path == "/retry_after" else cache_control.startswith("public")
    assert stack.executions(name) == 1


def test_what_was_waited_for_is_hot_under_its_own_address(crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?fresh=60"
    crowd.visit(address)
    again = crowd.visit(address)
    assert again.statuses == [200]
    assert "nginx; hit" in again.answers[0].cache_status
    assert again.answers[0].headers["Cache-Control"].startswith("public")


def test_names_and_queries_come_through(stack: Stack, crowd: Crowd, delivery: str, name: str) -> None:
    assert_names_and_queries_come_through(stack, crowd, name, REDIRECTS[delivery])


def assert_names_and_queries_come_through(stack: Stack, crowd: Crowd, name: str, count: int) -> None:
    """Each in so many redirects, and the next time from nginx."""
    sizes = {f"/slow/{name}{number}{query}": 300 if "size" in query else 100 for number, query in enumerate(QUERIES)}
    visits = crowd.send([*(f"/slow/{name}{encoded}" for encoded in NAMES.values()), *sizes]).result(30)
    assert {redirects(visit) for visit in visits} == {count}
    for visit, encoded in zip(visits, NAMES.values(), strict=False):
        assert (visit.status, visit.body) == (200, SlowContent(name + unquote(encoded)).body)
        assert stack.executions(name + unquote(encoded)) == 1
    assert crowd.visit(f"/slow/{name}a%2Bb").body == crowd.visit(f"/slow/{name}a+b").body
    assert stack.executions(f"{name}a+b") == 1
    for address, size in sizes.items():
        again = crowd.visit(address)
        assert (again.status, len(again.body)) == (200, size)
        assert "nginx; hit" in again.answers[0].cache_status


def test_a_picture_is_the_same_by_whomever_it_is_delivered(
    stack: Stack, crowd: Crowd, delivery: str, name: str
) -> None:
    address = f"/slow/{name}?behaviour=picture&size=5000&seconds=0.3"
    before = stack.metric("tarry_answers_total", server="main", answer="serve")
    first, again = crowd.visit(address), crowd.visit(address)
    served = stack.metric("tarry_answers_total", server="main", answer="serve") - before
    assert (first.status, first.body, again.body) == (200, SlowContent(name, size=5000).body, first.body)
    assert served == 1  # for the second visit, or as the waiting instance sent the first one back
    fields, others = first.answers[-1].headers, again.answers[-1].headers
    own = {"cache-control", "expires"}  # of the waiting address, which must not be kept
    assert {each.lower() for each in fields} - own == {each.lower() for each in others} - own
    for field in ("Content-Type", "Content-Location", "ETag", "Last-Modified", "Accept-Ranges"):
        assert fields[field] == others[field]
    assert stack.executions(name) == 1


def test_head_and_conditions_come_through_on_the_first_visit(crowd: Crowd, delivery: str, name: str) -> None:
    head = crowd.visit(f"/slow/{name}h?size=5000", method="HEAD")
    assert (head.status, head.body, head.answers[-1].headers["Content-Length"]) == (200, b"", "5000")
    part = crowd.visit(f"/slow/{name}r?size=5000", headers={"Range": "bytes=1000-1999"})
    assert (part.status, part.body) == (206, SlowContent(f"{name}r", size=5000).body[1000:2000])
    etag = f'"{sha256(SlowContent(f"{name}e").body).hexdigest()[:32]}"'
    known = crowd.visit(f"/slow/{name}e", headers={"If-None-Match": etag})
    assert (known.status, known.body) == (304, b"")
    since = {"If-Modified-Since": known.answers[-1].headers["Last-Modified"]}
    assert crowd.visit(f"/slow/{name}e", headers=since).status == 304
    assert {redirects(visit) for visit in (head, part, known)} == {REDIRECTS[delivery]}


def test_what_fails_is_told_as_itself(crowd: Crowd, delivery: str, name: str) -> None:
    assert_failures_are_told_as_themselves(crowd, name, REDIRECTS[delivery], missing_is_kept=delivery != "inline")


def assert_failures_are_told_as_themselves(crowd: Crowd, name: str, count: int, *, missing_is_kept: bool) -> None:
    for behaviour, status in FAILURES.items():
        visit = crowd.visit(f"/slow/{name}{behaviour}?behaviour={behaviour}&fresh=0&stale=0&seconds=0.2")
        assert (visit.status, redirects(visit)) == (status, count)
        answer = visit.answers[-1]
        assert answer.headers["Content-Type"] == "application/problem+json"
        is_kept = status == 404 and missing_is_kept
        assert answer.headers.getall("Cache-Control") == ["public, max-age=1" if is_kept else "no-store"]


def test_a_wait_that_ends_in_vain_is_told_so(crowd: Crowd, delivery: str, name: str) -> None:
    visit = crowd.visit(f"/slow/{name}?gated=1", headers={"Prefer": "wait=1"})
    assert visit.is_honest_refusal
    assert visit.answers[-1].headers["Preference-Applied"] == "wait=1"
    assert redirects(visit) == (0 if delivery == "internal" else 1)


def test_the_second_wait_delivers_as_the_first(stack: Stack, crowd: Crowd, delivery: str, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"])
    turns = {"inline": 2, "internal": 1}[delivery]
    eventually(lambda: crowd.visits and len(crowd.visits[0].answers) == turns, 20, "the second wait begins")
    stack.open_gate(name)
    [visit] = waiting.result(20)
    assert (visit.status, visit.body) == (200, SlowContent(name).body)
    assert redirects(visit) == REDIRECTS[delivery] + 1


def test_clients_that_vanish_are_released(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.send([f"/slow/{name}?gated=1"] * 30, lenient=True)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 30, 10, "all wait")
    crowd.leave()
    eventually(lambda: stack.metric("tarry_waiting_clients") == 0, 3, "nobody waits")
    stack.open_gate(name)


def test_a_reload_of_the_waiting_instance_loses_nobody(stack: Stack, crowd: Crowd, delivery: str, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"] * 50, lenient=True)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 50, 10, "all wait")
    under_way = list(crowd.visits)
    stack.reload("retry")
    eventually(lambda: all(_was_sent_again(visit) for visit in under_way), 20, "all are sent again")
    stack.open_gate(name)
    visits = waiting.result(30)
    assert all(visit.status == 200 or visit.met_a_late_main for visit in under_way)
    assert {visit.status for visit in visits} == {200}
    assert {visit.body for visit in visits} == {SlowContent(name).body}
    assert stack.executions(name) == 1


def test_a_shutdown_of_the_waiting_instance_answers_all(stack: Stack, crowd: Crowd, delivery: str, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1"] * 20, lenient=True)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 20, 10, "all wait")
    under_way = list(crowd.visits)
    stack.stop("retry")
    stack.open_gate(name)
    waiting.result(30)
    first = 0 if delivery == "internal" else 1
    assert {visit.answers[first].status for visit in under_way} == {302}
    stack.begin("retry")
    stack.wait_until_healthy()


def test_main_does_not_meet_the_crowd(stack: Stack, crowd: Crowd, name: str) -> None:
    waiting = crowd.send([f"/slow/{name}?gated=1&size=5000"] * 300, patient=True)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 300, 20, "all wait")
    before = stack.metric("tarry_answers_total", server="main", answer="serve")
    stack.open_gate(name)
    assert {visit.body for visit in waiting.result(30)} == {SlowContent(name, size=5000).body}
    assert stack.metric("tarry_answers_total", server="main", answer="serve") - before <= 5


def test_a_client_cannot_ask_to_be_handed_over(stack: Stack, crowd: Crowd, delivery: str, name: str) -> None:
    visit = crowd.visit(f"/slow/{name}?seconds=0.1", headers={"X-Front": "handed", "X-Accel-Redirect": "@wait"})
    assert (visit.status, redirects(visit)) == (200, REDIRECTS[delivery])
    assert crowd.visit("/admin/login/", headers={"X-Front": "returned"}).statuses == [200]


def test_a_person_gets_a_page_that_is_soon_ready_and_else_the_waiting_page(
    crowd: Crowd, stack: Stack, delivery: str, name: str
) -> None:
    headers = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}
    soon = crowd.visit(f"/slow/{name}s?html=1&seconds=0.1", headers=headers)
    assert (soon.status, soon.body, redirects(soon)) == (200, SlowContent(f"{name}s").body, REDIRECTS[delivery])
    later = crowd.visit(f"/slow/{name}?html=1&gated=1", headers=headers)
    assert (later.status, redirects(later)) == (503, REDIRECTS[delivery])
    assert later.answers[-1].headers.getall("Cache-Control") == ["no-store"]
    assert b"Being prepared" in later.body
    stack.open_gate(name)


def test_the_end_of_the_process_manager_ends_everything_even_work(
    stack: Stack, crowd: Crowd, delivery: str, name: str
) -> None:
    """Killed, or ended with its terminal, it leaves no process behind."""
    crowd.send([f"/slow/{name}?gated=1"])
    stack.wait_for(name)
    ending = signal.SIGKILL if delivery == "internal" else signal.SIGHUP
    assert stack.shut_down(ending, END_SECONDS) == []
