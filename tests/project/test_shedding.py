"""What has waited for too long is refused before any work is done for it."""

import io
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from project import shedding

NOW = 1_000_000.0


def ask(since: str | None, method: str = "GET") -> tuple[str, bytes, dict[str, str]]:
    """The status, body and fields of the answer to a request that came to the front then."""
    said: list[tuple[str, dict[str, str]]] = []

    def application(_: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        return [b"content"]

    environ = {"REQUEST_METHOD": method, "wsgi.input": io.BytesIO()}
    if since is not None:
        environ["HTTP_X_FRONT_SINCE"] = since

    def start(status: str, fields: list[tuple[str, str]], *_: object) -> object:
        said.append((status, dict(fields)))
        return None

    body = b"".join(shedding.shed(application, lambda: NOW)(environ, start))  # type: ignore[arg-type]
    return said[0][0], body, said[0][1]


def test_what_came_long_ago_is_told_to_come_again() -> None:
    status, body, fields = ask(str(NOW - shedding.MOST_SECONDS - 0.001))
    assert (status, fields["Retry-After"], fields["Cache-Control"]) == ("503 Service Unavailable", "1", "no-store")
    assert (int(fields["Content-Length"]), fields["Content-Type"]) == (len(body), "application/problem+json")


def test_a_head_has_no_body() -> None:
    status, body, _ = ask(str(NOW - 60), "HEAD")
    assert (status, body) == ("503 Service Unavailable", b"")


@pytest.mark.parametrize("since", [str(NOW - shedding.MOST_SECONDS), str(NOW), str(NOW + 3600), None, "", "soon"])
def test_all_else_is_answered(since: str | None) -> None:
    assert ask(since)[:2] == ("200 OK", b"content")


def test_what_changes_something_is_done_however_long_it_waited() -> None:
    assert ask(str(NOW - 60), "POST")[:2] == ("200 OK", b"content")
