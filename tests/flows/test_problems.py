"""Answers to people and programs for addresses that are wrong in some way: status, type and fields, by the front."""

import socket
from contextlib import closing
from http.client import HTTPConnection
from typing import NamedTuple

import pytest

from ..support.stack import Stack

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


def test_a_search_need_not_be_percent_encoded(stack: Stack) -> None:
    with socket.create_connection(("127.0.0.1", stack.port), 20) as connection:
        connection.sendall(
            f"GET /feeds/all.atom?q=café HTTP/1.1\r\nHost: {stack.host}\r\nConnection: close\r\n\r\n".encode()
        )
        with connection.makefile("rb") as answer:
            assert answer.readline().split()[1] in {b"200", b"302"}
