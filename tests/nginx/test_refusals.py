"""Refusals of nginx itself are problems, and pages for people, as all other refusals are."""

import json
import socket
from typing import Any

import pytest

from project.nginx_config import WaitingSite
from retry.headers import CORS_HEADERS
from retry.responses import PROBLEM_TITLES

from .conftest import Reply, RunningFront, Start

LONG = "x" * 17_000
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def check_fields(answer: Reply, media_type: str) -> None:
    """A refusal is never cached, kept apart by its type, and may be read by pages of other origins."""
    assert answer.headers.get_all("Content-Type") == [media_type]
    assert answer.headers.get_all("Cache-Control") == ["no-store"]
    assert answer.headers.get_all("Vary") == ["Accept, Sec-Fetch-Mode"]
    assert {name: answer.headers[name] for name in CORS_HEADERS} == CORS_HEADERS


def said(answer: Reply) -> dict[str, Any]:
    """The problem, with the status of the answer."""
    check_fields(answer, "application/problem+json")
    problem: dict[str, Any] = json.loads(answer.body)
    assert (problem["status"], problem["title"]) == (answer.status, PROBLEM_TITLES[answer.status])
    return problem


@pytest.mark.parametrize("host", ["localhost", "elsewhere.example"])
@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/" + LONG, {}, 414),
        ("/tiles/a?x=" + LONG, {}, 414),
        ("/tiles/a", {"X-Long": LONG}, 431),
        ("/tiles/a", {"Content-Length": "x"}, 400),
        ("/tiles/a", {"Transfer-Encoding": "gzip"}, 400),
        ("/%00\xff%", {}, 400),
    ],
    ids=["address", "arguments", "field", "length", "coding", "encoding"],
)
def test_what_cannot_be_read(site: RunningFront, host: str, target: str, headers: dict[str, str], status: int) -> None:
    assert said(site.get(target, host, **headers))["status"] == status
    assert site.main.asked == []


@pytest.mark.parametrize("field", ["If-Match", "If-Unmodified-Since"])
def test_a_static_file_that_is_another_than_the_client_names(site: RunningFront, field: str) -> None:
    site.front.data.static.mkdir(exist_ok=True)
    (site.front.data.static / "a.css").write_bytes(b"a")
    answer = site.get("/static/a.css", **{field: '"b"' if field == "If-Match" else "Fri, 20 Nov 1998 10:00:00 GMT"})
    assert said(answer)["status"] == 412


@pytest.mark.parametrize(
    ("target", "method", "host", "status"),
    [
        *((target, "POST", None, 413) for target in ("/", "/tiles/a", "/retry_after?x=1")),
        *((f"/static/{name}", "GET", None, 404) for name in ("nothing.css", "", "nothing.0123456789ab.css")),
        *((f"/refused/{name}", "GET", None, 404) for name in ("long", "", "x")),
        *((f"/refused/{name}", "GET", "elsewhere.example", 404) for name in ("long", "", "x")),
    ],
)
def test_bodies_missing_files_and_refusals_themselves(
    site: RunningFront, target: str, method: str, host: str | None, status: int
) -> None:
    body = {"Content-Length": "100000"} if method == "POST" else {}
    assert said(site.get(target, host, method=method, **body))["status"] == status


SHOWN: dict[str, tuple[str, str, dict[str, str], int, str]] = {
    "no such file": ("GET", "/static/nothing.css", {}, 404, "There is no such page."),
    "a foreign host": ("GET", "/tiles/a", {"host": "elsewhere.example"}, 421, "not in ALLOWED_HOSTS"),
    "a method": ("TRACE", "/tiles/a", {}, 405, "Only GET, HEAD, OPTIONS are answered here."),
    "a body": ("POST", "/tiles/a", {"Content_Length": "100000"}, 413, "No body is read here"),
    "a field": ("GET", "/tiles/a", {"X_Long": LONG}, 431, "too long"),
    "a length": ("GET", "/tiles/a", {"Content_Length": "x"}, 400, "not HTTP as it should be"),
    "a form": ("POST", "/admin/", {"Content_Length": "200000"}, 413, "larger than this site accepts"),
    "a file of a stranger": ("POST", "/admin/feeds/feed/import/", {"Content_Length": "100000"}, 403, "not signed in"),
    "a call of a stranger": ("POST", "/api/layers", {"Content_Length": "0"}, 401, "Authorization: Bearer"),
    "a ticket that is not encoded": ("GET", "/retry_after?redirect=/caf\xe9", {}, 400, "Percent-encode"),
    "a state that is not encoded": ("GET", "/retry_after/status?redirect=/caf\xe9", {}, 400, "Percent-encode"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_programs_get_a_problem_and_people_the_same_as_a_page(site: RunningFront, case: str) -> None:
    method, target, fields, status, words = SHOWN[case]
    problem = said(site.get(target, method=method, **fields))
    page = site.get(target, method=method, **BROWSER, **fields)
    check_fields(page, "text/html; charset=utf-8")
    assert (problem["status"], page.status, words in problem["detail"]) == (status, status, True)
    assert f"<p>{problem['detail']}</p>".encode() in page.body
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert site.main.asked == site.retry.asked == []


def test_of_an_address_that_is_too_long_nothing_further_is_read(site: RunningFront) -> None:
    """Accept comes after it."""
    assert said(site.get("/" + LONG, **BROWSER))["status"] == 414


@pytest.mark.parametrize(
    ("fields", "media_type"), [(BROWSER, "text/html; charset=utf-8"), ({}, "application/problem+json")]
)
def test_a_head_has_the_fields_alone(site: RunningFront, fields: dict[str, str], media_type: str) -> None:
    answer = site.get("/static/nothing.css", method="HEAD", **fields)
    check_fields(answer, media_type)
    assert (answer.status, answer.body) == (404, b"")


def test_where_clients_wait_all_else_is_refused_alike(start: Start) -> None:
    site = start(elsewhere=WaitingSite("wait.example"))
    for target, status in (("/", 404), ("/static/a.css", 404), ("/retry_after?redirect=/caf\xe9", 400)):
        assert said(site.get(target, "wait.example"))["status"] == status
        check_fields(site.get(target, "wait.example", **BROWSER), "text/html; charset=utf-8")


def test_an_encoded_ticket_reaches_the_waiting_instance(site: RunningFront) -> None:
    assert site.get("/retry_after?redirect=/caf%C3%A9").status == 200
    assert [asked.target for asked in site.retry.asked] == ["/retry_after?redirect=/caf%C3%A9"]


def test_a_line_that_is_no_request(site: RunningFront) -> None:
    with socket.create_connection(("127.0.0.1", site.port)) as connection:
        connection.sendall(b"hello\r\n\r\n")
        assert b"application/problem+json" in connection.recv(4096)


def test_main_sees_addresses_that_are_too_long_for_it(site: RunningFront) -> None:
    """It refuses them in its own words, above 2,800 characters."""
    assert site.get("/tiles/" + "x" * 15_000).status == 200
