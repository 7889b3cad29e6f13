"""Answers to people and programs for addresses that are wrong in some way: status, type and fields, by the front."""

import socket
from contextlib import closing
from http.client import HTTPConnection, HTTPMessage, parse_headers
from typing import NamedTuple

import pytest

from ..support.stack import Stack, eventually

pytestmark = pytest.mark.no_database

MANY = "&".join(f"a{number}=1" for number in range(1500))
PAGE, PROBLEM = "text/html; charset=utf-8", "application/problem+json"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class Expected(NamedTuple):
    """The status, and the values of some header fields."""

    status: int
    fields: dict[str, str | None]


def typed(status: int, kind: str) -> Expected:
    return Expected(status, {"Content-Type": kind})


def moved(address: str) -> Expected:
    return Expected(301, {"Location": address})


def refused(status: int, kind: str) -> Expected:
    """A refusal that no cache keeps, and that pages of other origins may read."""
    return Expected(status, {"Content-Type": kind, "Cache-Control": "no-store", "Access-Control-Allow-Origin": "*"})


FORMS = ((BROWSER, PAGE), ("*/*", PROBLEM))
PATHS = ("/feeds/", "/staticmap")
READ = ("/resources/", "/resources/abc", "/admin")
ANSWERS = [
    ("GET", "/feeds/no-such.atom", BROWSER, typed(404, PAGE)),
    ("GET", "/feeds/no-such.atom", "TEXT/HTML", typed(404, PAGE)),
    ("GET", "/feeds/no-such.atom", "application/json;q=0.5, text/html", typed(404, PAGE)),
    ("GET", "/feeds/no-such.atom", "text/html;q=0, */*", typed(404, PROBLEM)),
    ("GET", "/feeds/no-such.atom", "text/html;q=0.1, application/json", typed(404, PROBLEM)),
    ("GET", "/feeds/no-such.atom", "*/*", typed(404, PROBLEM)),
    ("GET", "/feeds/no-such.atom", "", typed(404, PROBLEM)),
    ("GET", "/feeds/all.atom?limit=x", BROWSER, typed(400, PAGE)),
    ("GET", "/feeds/all.atom?limit=x", "*/*", typed(400, PROBLEM)),
    ("GET", "/feeds/all.atom?q=%FF", "*/*", typed(400, PROBLEM)),
    ("GET", "/tiles/no-such/0/0/0.png", BROWSER, typed(404, PAGE)),
    ("GET", "/resources/nothing", "*/*", typed(404, PROBLEM)),
    ("GET", "/staticmap", BROWSER, typed(400, PAGE)),
    ("GET", "/no-such-page", BROWSER, typed(404, PAGE)),
    ("GET", "/feeds/all.atom?utm_source=x&limit=3&ref=y", "*/*", moved("/feeds/all.atom?limit=3")),
    ("GET", "/feeds/all.atom?fbclid=x", "*/*", moved("/feeds/all.atom")),
    ("GET", "/?utm_source=x", BROWSER, typed(200, PAGE)),
    ("GET", "/robots.txt", "*/*", typed(200, "text/plain; charset=utf-8")),
    ("POST", "/feeds/all.atom", "*/*", Expected(405, {"Allow": "GET, HEAD, OPTIONS", "Content-Type": PROBLEM})),
    ("DELETE", "/tiles/jams/0/0/0.png", BROWSER, Expected(405, {"Allow": "GET, HEAD, OPTIONS", "Content-Type": PAGE})),
    ("PUT", "/staticmap", "*/*", Expected(405, {"Allow": "GET, HEAD, OPTIONS"})),
    ("POST", "/robots.txt", "*/*", Expected(405, {"Allow": "GET, HEAD, OPTIONS"})),
    ("POST", "/healthz", "*/*", Expected(405, {"Allow": "GET, HEAD, OPTIONS"})),
    ("TRACE", "/websub/a", "*/*", Expected(405, {"Allow": "GET, POST"})),
    ("PUT", "/websub/a", "*/*", Expected(405, {"Allow": "GET, POST"})),
    ("GET", "/retry_after?redirect=/caf%C3%A9%20x&key=a", "*/*", typed(400, PROBLEM)),
    *(("GET", f"{path}?{MANY}", accept, refused(400, kind)) for path in PATHS for accept, kind in FORMS),
    *(("GET", f"/feeds/?{'q&' * 1500}", accept, refused(400, kind)) for accept, kind in FORMS),
    *(("POST", path, "*/*", Expected(405, {"Allow": "GET, HEAD, OPTIONS", "Content-Type": PROBLEM})) for path in READ),
    *(("POST", "/admin/login/", accept, refused(403, kind)) for accept, kind in FORMS),
    *(("GET", "/static/nothing", accept, refused(404, kind)) for accept, kind in FORMS),
    *(("HEAD", "/static/nothing", accept, refused(404, kind)) for accept, kind in FORMS),
    *(("TRACE", "/", accept, refused(405, kind)) for accept, kind in FORMS),
    *(("GET", "/?" + 30_000 * "a", accept, refused(414, PROBLEM)) for accept, _ in FORMS),
    *(("GET", "/" + 3_000 * "a", accept, refused(404, kind)) for accept, kind in FORMS),
    ("ENTIRE", "/retry_after?key=a", "*/*", refused(400, PROBLEM)),
]


@pytest.mark.parametrize(("method", "address", "accept", "expected"), ANSWERS)
def test_each_has_its_status_and_its_form(
    stack: Stack, method: str, address: str, accept: str, expected: Expected
) -> None:
    with closing(HTTPConnection(stack.host, timeout=20)) as connection:
        connection.request(method, address, headers={"Accept": accept} if accept else {})
        with connection.getresponse() as answer:
            answer.read()
            found = Expected(answer.status, {name: answer.headers[name] for name in expected.fields})
    assert found == expected


def ask(stack: Stack, line: str, host: str, accept: str) -> tuple[int, HTTPMessage]:
    """Sends the request line in UTF-8. Returns the status and the fields of the answer."""
    with socket.create_connection(("127.0.0.1", stack.port), 20) as connection:
        head = f"{line} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        with connection.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            return status, parse_headers(answer)


def test_a_search_need_not_be_percent_encoded(stack: Stack) -> None:
    assert ask(stack, "GET /feeds/all.atom?q=café", stack.host, "*/*")[0] in {200, 302}


@pytest.mark.parametrize(("accept", "kind"), FORMS)
def test_what_cannot_be_answered_for_its_host_or_its_ticket_has_its_form_too(
    stack: Stack, accept: str, kind: str
) -> None:
    for line, host, status in (("GET /", "elsewhere.example", 421), ("GET /retry_after?redirect=/é", stack.host, 400)):
        found, fields = ask(stack, line, host, accept)
        expected = refused(status, kind)
        assert Expected(found, {name: fields[name] for name in expected.fields}) == expected


def test_a_request_that_django_refuses_is_a_line_in_the_log(stack: Stack) -> None:
    def lines() -> list[str]:
        return [line for line in stack.logs().splitlines() if "django.security.TooManyFieldsSent" in line]

    ask(stack, f"GET /feeds/?{MANY}", stack.host, "*/*")
    eventually(lambda: bool(lines()), 10, "the log has the refusal")
    assert [line for line in lines() if '"level": "warning"' not in line or "Traceback" in line] == []
