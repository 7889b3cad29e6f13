"""Answers for cold, prepared and stale content, as seen through the front."""

from hashlib import sha256
from itertools import pairwise

import pytest

from ..support.crowd import Crowd
from ..support.stack import Stack, eventually
from .slow.slow_content import SlowContent
from .test_deliveries import assert_failures_are_told_as_themselves, assert_names_and_queries_come_through

pytestmark = pytest.mark.no_database


def test_cold_content_comes_after_two_redirects_whatever_its_address(stack: Stack, crowd: Crowd, name: str) -> None:
    visit = crowd.visit(f"/slow/{name}?seconds=0.3&size=20000")
    assert (visit.statuses, visit.body) == ([302, 302, 200], SlowContent(name, size=20000).body)
    answer = visit.answers[-1]
    assert answer.headers["Content-Location"] == f"/slow/{name}?seconds=0.3&size=20000"
    assert answer.headers.getall("Content-Type") == ["text/plain; charset=utf-8"]
    assert answer.headers.getall("Access-Control-Allow-Origin") == ["*"]
    [cache_control] = answer.headers.getall("Cache-Control")
    assert cache_control.startswith("public")
    assert visit.answers[0].headers["Location"].startswith("/retry_after?")
    for _ in range(2):
        again = crowd.visit(visit.address)
        assert (again.statuses, again.body) == ([200], visit.body)
    assert "nginx; hit" in again.answers[0].cache_status
    assert again.answers[0].headers.getall("Cache-Status")[-1] == "nginx; hit"
    assert stack.executions(name) == 1
    assert_names_and_queries_come_through(stack, crowd, f"{name}named", 2)


def test_failures_are_told_after_two_redirects(crowd: Crowd, name: str) -> None:
    assert_failures_are_told_as_themselves(crowd, name, 2, missing_is_kept=True)


def test_200_clients_at_once_cost_one_preparation(stack: Stack, crowd: Crowd, name: str) -> None:
    visits = crowd.send([f"/slow/{name}?seconds=0.3&size=20000"] * 200).result(30)
    assert {visit.status for visit in visits} == {200}
    assert {visit.body for visit in visits} == {SlowContent(name, size=20000).body}
    assert stack.executions(name) == 1


def test_clients_that_come_while_it_is_prepared_join_in(stack: Stack, crowd: Crowd, name: str) -> None:
    first = crowd.send([f"/slow/{name}?gated=1"])
    stack.wait_for(name)
    late = crowd.send([f"/slow/{name}?gated=1"] * 20)
    eventually(lambda: stack.metric("tarry_waiting_clients") >= 21, 10, "all wait")
    stack.open_gate(name)
    assert {visit.body for visit in [*first.result(20), *late.result(20)]} == {SlowContent(name).body}
    assert stack.executions(name) == 1


def test_head_is_answered_as_get_is_without_a_body(stack: Stack, crowd: Crowd, name: str) -> None:
    visit = crowd.visit(f"/slow/{name}?size=5000", method="HEAD")
    assert visit.statuses == [302, 302, 200]
    assert visit.body == b""
    assert visit.answers[-1].headers["Content-Length"] == "5000"
    assert stack.executions(name) == 1


def test_a_client_that_has_it_is_told_so(crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}"
    etag = f'"{sha256(SlowContent(name).body).hexdigest()[:32]}"'
    for statuses in ([302, 302, 304], [304], [304]):  # the last time by the front itself
        again = crowd.visit(address, headers={"If-None-Match": etag})
        assert again.statuses == statuses
        assert again.body == b""
        assert again.answers[-1].headers["ETag"] == etag
    since = {"If-Modified-Since": again.answers[-1].headers["Last-Modified"]}
    assert crowd.visit(address, headers=since).status == 304
    assert crowd.visit(address, headers={"If-None-Match": '"of-something-else"'}).statuses == [200]


def test_a_refresh_that_changes_nothing_leaves_a_client_what_it_has(stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?fresh=1&stale=600"
    first = crowd.visit(address).answers[-1].headers
    held = {"If-None-Match": first["ETag"], "If-Modified-Since": first["Last-Modified"]}

    def is_refreshed() -> bool:
        again = crowd.visit(address, headers=held)
        assert (again.statuses, again.answers[-1].headers.getall("Last-Modified")) == ([304], [first["Last-Modified"]])
        return stack.executions(name, "finish") >= 3

    eventually(is_refreshed, 20, "it is refreshed twice")


def test_a_tag_alone_decides_and_its_304_has_the_fields_of_the_200(crowd: Crowd, name: str) -> None:
    address, packed = f"/slow/{name}?size=5000", {"Accept-Encoding": "gzip"}
    crowd.visit(address)
    whole = crowd.visit(address, headers=packed).answers[-1].headers
    long_ago = {"If-Modified-Since": "Fri, 21 Nov 2025 22:30:00 GMT"}
    for conditions in (
        {"If-None-Match": whole["ETag"], **long_ago},
        {"If-None-Match": whole["ETag"].removeprefix("W/"), **long_ago},
        {"If-Modified-Since": whole["Last-Modified"]},
    ):
        again = crowd.visit(address, headers={**packed, **conditions})
        assert again.statuses == [304]
        for field in ("ETag", "Vary", "Last-Modified"):
            assert again.answers[-1].headers.getall(field) == whole.getall(field)
    assert (whole["ETag"][:2], whole["Vary"]) == ("W/", "Accept-Encoding")
    newer = crowd.visit(address, headers={"If-None-Match": '"x"', "If-Modified-Since": whole["Last-Modified"]})
    assert newer.statuses == [200]


def test_parts_are_given_out_on_the_first_visit_and_by_the_front(crowd: Crowd, name: str) -> None:
    address, body = f"/slow/{name}?size=5000", SlowContent(name, size=5000).body
    for statuses in ([302, 302, 206], [206]):
        part = crowd.visit(address, headers={"Range": "bytes=1000-1999"})
        assert (part.statuses, part.body) == (statuses, body[1000:2000])
        assert part.answers[-1].headers["Content-Range"] == "bytes 1000-1999/5000"


def test_stale_content_is_served_at_once_and_replaced_behind_the_scenes(stack: Stack, crowd: Crowd, name: str) -> None:
    address = f"/slow/{name}?behaviour=numbered&fresh=1&stale=600"
    assert crowd.visit(address).body == f"{name} 1".encode()
    bodies: list[bytes] = []

    def is_new() -> bool:
        visit = crowd.visit(address)
        assert visit.statuses == [200]  # no client is sent to wait
        bodies.append(visit.body)
        return visit.body != bodies[0]

    eventually(is_new, 15, "the refresh shows")
    assert stack.executions(name) >= 2
    assert all(int(old.split()[1]) <= int(new.split()[1]) for old, new in pairwise(bodies))


def test_stale_content_bridges_failures_of_its_refresh(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.visit(f"/slow/{name}?behaviour=ok&fresh=0&stale=600")
    failing = f"/slow/{name}?behaviour=raise&fresh=0&stale=600"

    def has_failed() -> bool:
        visit = crowd.visit(failing)
        assert visit.statuses == [200]
        assert visit.body == SlowContent(name).body
        return stack.state.exists(f"retry:{{0}}:failure:slow:{name}:0") == 1

    eventually(has_failed, 15, "a failed refresh")
    after = crowd.visit(failing)
    assert after.statuses == [200]
    assert after.body == SlowContent(name).body


def test_a_newer_version_of_the_data_makes_content_stale_at_once(stack: Stack, crowd: Crowd, name: str) -> None:
    crowd.visit(f"/slow/{name}?version=1")
    newer = f"/slow/{name}?version=2"
    first = crowd.visit(newer)
    assert first.statuses == [200]
    assert first.body == SlowContent(name, version=1).body
    assert "stale" in first.answers[-1].headers["Server-Timing"]
    eventually(lambda: crowd.visit(newer).body == SlowContent(name, version=2).body, 10, "the new version shows")


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("/tiles/" + "x" * 12_000, {}, 404),
        ("/staticmap?layers=" + "x" * 12_000, {}, 400),
        ("/slow/a?x=" + "x" * 12_000, {}, 414),
        ("/tiles/a", {"X-Long": "x" * 12_000}, 404),
        ("/tiles/a", {f"X-{number}": "x" for number in range(200)}, 404),
    ],
    ids=["path", "arguments", "deferred", "field", "fields"],
)
def test_what_nginx_lets_through_is_refused_by_the_site_in_its_own_words(
    crowd: Crowd, address: str, headers: dict[str, str], status: int
) -> None:
    visit = crowd.visit(address, headers=headers)
    assert visit.statuses == [status]
    assert visit.answers[0].headers["Content-Type"] == "application/problem+json"
