"""Requests of content pass no middleware for people; all other requests do. Both have the same policies of pages."""

import io
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.dispatch import Signal
from django.http import HttpRequest, HttpResponse
from django.urls import path
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
    settings.ROOT_URLCONF = __name__
    monkeypatch.setattr(handlers, "FOR_PEOPLE", {name})
    SEEN.clear()
    method, address, cookie = (*asked.split(), "")[:3]
    status, _ = answer(method, address, HTTP_COOKIE=cookie)
    assert status == "404 Not Found"
    assert bool(SEEN) == is_marked
    assert settings.MIDDLEWARE == [name]


def answer(method: str, address: str, **given: str) -> tuple[str, dict[str, str]]:
    """Asks main's application, which it makes. Returns the status and the header fields."""
    environ = {"REQUEST_METHOD": method, "PATH_INFO": address, "SERVER_NAME": "localhost", "SERVER_PORT": "80", **given}
    environ |= {"wsgi.url_scheme": "http", "QUERY_STRING": "", "wsgi.input": io.BytesIO()}  # type: ignore[dict-item]
    begun: list[Any] = []
    response: Any = handlers.make_application()(environ, lambda *begin: begun.append(begin))  # type: ignore[arg-type]
    list(response)
    [(status, fields)] = begun
    return status, dict(fields)


POLICIES = ("X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("address", "accept", "policies"),
    [
        ("/tiles/picture", "", []),
        ("/tiles/file", "", [*POLICIES, "Content-Security-Policy"]),
        ("/tiles/page", "", [*POLICIES, "Content-Security-Policy"]),
        ("/tiles/text", "", [*POLICIES]),
        ("/tiles/nothing", "", [*POLICIES]),
        ("/tiles/nothing", "text/html", [*POLICIES, "Content-Security-Policy"]),
    ],
)
@pytest.mark.parametrize("cookie", ["", "sessionid=1"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_content_has_the_same_policies_with_and_without_a_cookie(  # noqa: PLR0917  # the cases
    settings: Settings, address: str, accept: str, policies: list[str], cookie: str, scheme: str
) -> None:
    settings.ROOT_URLCONF = __name__
    settings.SECURE_HSTS_SECONDS = 60
    given = {"HTTP_ACCEPT": accept, "HTTP_COOKIE": cookie, "HTTP_X_FORWARDED_PROTO": scheme}
    _, fields = answer("GET", address, **given)
    assert [name for name in (*POLICIES, "Content-Security-Policy") if name in fields] == policies
    assert fields.get("Strict-Transport-Security") == ("max-age=60" if scheme == "https" else None)


@pytest.mark.django_db
def test_content_of_a_foreign_host_is_refused() -> None:
    assert answer("GET", "/tiles/picture", HTTP_HOST="evil.example")[0] == "400 Bad Request"


@pytest.mark.parametrize("is_debug", [True, False])
def test_requests_find_old_connections_closed_and_do_nothing_idle(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, is_debug: bool
) -> None:
    settings.DEBUG = is_debug
    for signal in (request_started, request_finished):
        monkeypatch.setattr(signal, "receivers", list(signal.receivers))
        signal.connect(close_old_connections)  # Django's client for tests takes it off
    handlers.disconnect_idle_receivers()
    assert all(close_old_connections in receivers(signal) for signal in (request_started, request_finished))
    assert [receiver in receivers(signal) for signal, receiver in handlers.IDLE_RECEIVERS] == [is_debug] * 3


def receivers(signal: Signal) -> list[Any]:
    return signal._live_receivers(None)[0]


def file_of_another(_: HttpRequest) -> HttpResponse:
    return HttpResponse(content_type="image/png", headers={"Content-Security-Policy": "sandbox"})


handler400 = "project.middleware.answer_malformed"
handler404 = "project.middleware.answer_unknown_address"

urlpatterns: list[Any] = [
    path("tiles/picture", lambda _: HttpResponse(content_type="image/png")),
    path("tiles/file", file_of_another),
    path("tiles/page", lambda _: HttpResponse()),
    path("tiles/text", lambda _: HttpResponse(content_type="text/plain")),
]
