"""Requests in line share the answer of another one whose look came after them."""

import io
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.unreader import IterUnreader

from project import shared_answers
from project.main_http import EncodedRequest
from project.shared_answers import FRONT_CLOCK_SECONDS, SharedAnswers, share_answers
from retry.decision import LOOKED_AT

NOW = 1_000_000.0
EARLIER = NOW - FRONT_CLOCK_SECONDS - 0.001


def request(since: float = EARLIER, path: str = "/tiles/1?a=%20b", more: str = "", method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: site", "X-Real-IP: 10.0.0.1", "X-Front: asked"]
    return "\r\n".join([*lines, f"X-Front-Since: {since:.3f}", f"User-Agent: {since}{more}", "", ""]).encode()


def environ_of(sent: bytes) -> dict[str, Any]:
    """The environment that gunicorn makes of a request."""
    config = Config()
    parsed = EncodedRequest(config, IterUnreader(iter([sent])), "")
    _, environ = wsgi.create(parsed, None, "", "unix:main", config)
    return dict(environ)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> SharedAnswers:
    kept = SharedAnswers()
    monkeypatch.setattr(shared_answers, "ANSWERS", kept)
    return kept


def serve(sent: bytes, looked_at: float | None) -> None:
    """Has an application answer the request, after a look at that time."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if looked_at is not None:
            environ[LOOKED_AT] = looked_at
        start_response("302 Found", [("Location", "/wait"), ("Content-Length", "0")])
        return [b""]

    list(share_answers(application)(environ_of(sent), lambda *_: io.BytesIO().write))


def test_a_request_that_came_before_the_look_has_the_answer_of_another_client(answers: SharedAnswers) -> None:
    serve(request(NOW), NOW)
    found = answers.find(request(EARLIER, more="\r\nAccept-Language: de"))
    assert found == b"HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: /wait\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        request(NOW - FRONT_CLOCK_SECONDS),
        request(path="/tiles/1?a=%20c"),
        request(method="HEAD"),
        request(method="POST"),
        request(more="\r\nPrefer: respond-async"),
        request(more="\r\nSec-Fetch-Mode: navigate"),
        request(more="\r\nX-Front: refresh"),
        request().replace(b"Host: site", b"Host: other"),
        request().replace(b"X-Front-Since", b"X-Since"),
        request()[:-2],
        b"",
    ],
    ids=["later", "address", "HEAD", "POST", "Prefer", "mode", "twice", "host", "no time", "no end", "nothing"],
)
def test_all_other_requests_are_left_to_be_answered(answers: SharedAnswers, sent: bytes) -> None:
    serve(request(NOW), NOW)
    assert answers.find(sent) is None


def test_answers_without_a_look_are_not_shared_and_end_the_earlier_one(answers: SharedAnswers) -> None:
    serve(request(), None)
    assert answers.is_empty()
    serve(request(), NOW)
    assert not answers.is_empty()
    serve(request(), None)
    assert answers.find(request()) is None


def test_answers_are_few_and_are_not_kept_for_long(answers: SharedAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(shared_answers.MOST_KEPT + 1):
        serve(request(path=f"/{number}"), NOW)
    assert answers.find(request(path="/0")) is None
    assert answers.find(request(path=f"/{shared_answers.MOST_KEPT}"))
    monkeypatch.setattr(answers, "_kept_until", 0)
    assert answers.is_empty()
