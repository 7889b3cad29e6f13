"""Refusals of nginx itself are problems, as all other refusals are."""

import json
import socket
from typing import Any

import pytest

from .conftest import Reply, RunningFront

LONG = "x" * 17_000


def said(answer: Reply) -> dict[str, Any]:
    """The problem, with the status of the answer. It is never cached."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers.get_all("Cache-Control") == ["no-store"]
    problem: dict[str, Any] = json.loads(answer.body)
    assert problem["status"] == answer.status
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
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


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


def test_a_line_that_is_no_request(site: RunningFront) -> None:
    with socket.create_connection(("127.0.0.1", site.port)) as connection:
        connection.sendall(b"hello\r\n\r\n")
        assert b"application/problem+json" in connection.recv(4096)


def test_main_sees_addresses_that_are_too_long_for_it(site: RunningFront) -> None:
    """It refuses them in its own words, above 2,800 characters."""
    assert site.get("/tiles/" + "x" * 15_000).status == 200
