"""Requests of content pass no middleware for people; all other requests do."""

import io
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from pytest_django import Settings

from project import handlers

SEEN: list[str] = []


class Marked:
    """Stands for the middleware for people."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        SEEN.append(request.path)
        response: HttpResponse = self.get_response(request)
        return response


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("asked", "is_marked"),
    [
        ("GET /tiles/none/1/2/3.png", False),
        ("HEAD /tiles/none/1/2/3.png", False),
        ("POST /tiles/none/1/2/3.png", True),
        ("GET /tiles/none/1/2/3.png sessionid=1", True),
        ("GET /admin/nothing", True),
    ],
)
def test_content_without_a_cookie_is_none_of_a_persons(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, asked: str, is_marked: bool
) -> None:
    name = f"{__name__}.Marked"
    settings.MIDDLEWARE = [name]
    settings.ROOT_URLCONF = "tests.unit.project.test_handlers"
    monkeypatch.setattr(handlers, "FOR_PEOPLE", {name})
    SEEN.clear()
    method, path, cookie = (*asked.split(), "")[:3]
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_COOKIE": cookie, "SERVER_NAME": "localhost"}
    environ |= {"SERVER_PORT": "80", "wsgi.url_scheme": "http", "QUERY_STRING": "", "wsgi.input": io.BytesIO()}  # type: ignore[dict-item]
    statuses: list[str] = []
    list(handlers.make_application()(environ, lambda status, *_: statuses.append(status)))  # type: ignore[arg-type]
    assert statuses == ["404 Not Found"]
    assert bool(SEEN) == is_marked
    assert settings.MIDDLEWARE == [name]


urlpatterns: list[Any] = []
