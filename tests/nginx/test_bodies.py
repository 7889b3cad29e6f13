"""Bodies: who may send how much, told before any of it is taken."""

import json
import socket

import pytest

from project.fronting import UPLOADS_PER_ADDRESS
from resources.api import problems
from tests.nginx.conftest import RunningFront
from tests.nginx.origin import Answer

SPEEDS = "/api/layers/jams/speeds"


def head(method: str, target: str, length: int, **headers: str) -> bytes:
    fields = {"Host": "localhost", "Content-Length": str(length), **headers}
    return "\r\n".join([f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]).encode()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("authorization", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}])
def test_a_change_without_a_token_is_refused_before_its_body(
    site: RunningFront, method: str, authorization: dict[str, str]
) -> None:
    answer = site.get(SPEEDS, method=method, Content_Length="90000", **authorization)
    assert answer.status == 401
    assert site.main.asked == []
    assert answer.headers["WWW-Authenticate"] == problems.CHALLENGE
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert json.loads(answer.body) == json.loads(problems.Problem(401, problems.NO_TOKEN).response().content)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_reading_needs_no_token(site: RunningFront, method: str) -> None:
    site.get("/api/layers", method=method)
    assert [asked.method for asked in site.main.asked] == [method]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_change_with_a_token_is_for_main_to_judge(site: RunningFront, scheme: str) -> None:
    site.main.answer = lambda _: Answer(401, {"WWW-Authenticate": "main"}, b"")
    assert (
        site.get(SPEEDS, method="POST", Authorization=f"{scheme} a", Content_Length="0").headers["WWW-Authenticate"]
        == "main"
    )


def test_the_sign_in_form_is_small(site: RunningFront) -> None:
    assert site.get("/admin/login/", method="POST", Content_Length="70000").status == 413
    assert site.main.asked == []


@pytest.mark.parametrize("target", [SPEEDS, "/admin/resources/layer/add/"])
def test_one_address_sends_few_large_bodies_at_a_time(site: RunningFront, target: str) -> None:
    sending = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(UPLOADS_PER_ADDRESS)]
    for connection in sending:  # and then nothing of the body
        connection.sendall(head("POST", target, 100_000, Authorization="Bearer a"))
    refused = site.get(target, method="POST", Content_Length="100000", Authorization="Bearer a")
    assert refused.status == 429
    assert refused.headers["Retry-After"] == "5"
    assert json.loads(refused.body)["status"] == 429
    assert site.get(target, Authorization="Bearer a").status == 200  # what brings little goes on
    for connection in sending:
        connection.close()
