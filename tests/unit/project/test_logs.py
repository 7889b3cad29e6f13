"""The log of requests: by their routes, for their paths may be secrets."""

import importlib
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils.log import CallbackFilter

from feeds.subscriptions import views
from project.logs import JsonFormatter, logging_configuration
from retry import metrics
from tests.support.feed_rows import feed
from tests.support.feed_subscriptions import TOKEN, subscription

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

RIGHT = f"/rsscloud/{TOKEN}"
SIGNED = f"/resources/{TOKEN}/{TOKEN}"
ROUTES = {
    RIGHT: "/rsscloud/<str:token>",
    f"/websub/{TOKEN}": "/websub/<str:token>",
    f"{RIGHT}%0aé": "/rsscloud/<str:token>",
    SIGNED: "/resources/<segment:signature>/<segment:encoded>",
    f"/elsewhere/{TOKEN}": "",
}


@pytest.fixture(autouse=True)
def _no_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views.SCAN_CALL, "soon", lambda: None)


@pytest.fixture
def handled(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log after the filters of the configured handler."""
    configuration = logging_configuration("INFO")
    names = configuration["handlers"]["stdout"]["filters"]
    filters = [CallbackFilter(configuration["filters"][name]["callback"]) for name in names]
    for each in filters:
        caplog.handler.addFilter(each)
    yield caplog
    for each in filters:
        caplog.handler.removeFilter(each)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    written = [JsonFormatter().format(record) for record in caplog.records]
    assert TOKEN not in "".join(written)
    return [json.loads(line) for line in written]


@pytest.mark.parametrize("path", ROUTES)
def test_a_request_that_is_slow_is_told_of_by_its_route(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "SLOW_SECONDS", -1.0)
    if path == RIGHT:
        subscription(of := feed("a"))
        assert Client().post(RIGHT, f"url={of.url}", "application/x-www-form-urlencoded").status_code == 200
    else:
        Client().get(path)
    [line] = [line for line in lines(caplog) if line["logger"] == "tarry.slow"]
    assert (line["method"], line["route"]) == ("POST" if path == RIGHT else "GET", ROUTES[path])


@pytest.mark.parametrize(
    ("path", "failing"),
    [
        (RIGHT, "feeds.subscriptions.pings.is_verification_expected"),
        (f"{RIGHT}%0aé", "feeds.subscriptions.pings.is_verification_expected"),
        (SIGNED, "resources.mirror.links.verify_address"),
    ],
)
def test_a_request_that_fails_is_told_of_by_its_route(
    path: str, failing: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing, lambda *_, **__: 1 / 0)
    assert Client(raise_request_exception=False).get(path, {"challenge": "c", "url": "u"}).status_code == 500
    [line] = [line for line in lines(caplog) if line["logger"] == "django.request"]
    assert line["message"] == f"Internal Server Error: {ROUTES[path]}"
    assert "ZeroDivisionError" in line["exception"]


def test_a_form_that_is_refused_is_told_of_by_its_route(caplog: pytest.LogCaptureFixture) -> None:
    assert Client(enforce_csrf_checks=True).post(f"/admin/{TOKEN}/").status_code == 403
    [line] = [line for line in lines(caplog) if line["logger"] == "django.security.csrf"]
    assert line["message"].startswith("Forbidden (CSRF cookie not set.): /admin/")


@pytest.mark.parametrize(("address", "host"), [(f"/feeds/?{'q&' * 1500}", "testserver"), ("/feeds/", "evil.example")])
def test_a_request_that_django_refuses_is_a_warning_of_one_line(
    address: str, host: str, handled: pytest.LogCaptureFixture
) -> None:
    assert Client().get(address, headers={"Host": host}).status_code == 400
    [line] = [line for line in lines(handled) if line["logger"].startswith("django.security.")]
    assert (line["level"], "exception" in line) == ("warning", False)


def test_so_it_is_left_out_where_warnings_are(handled: pytest.LogCaptureFixture) -> None:
    with handled.at_level("ERROR", "django"):
        assert Client().get(f"/feeds/?{'q&' * 1500}").status_code == 400
    assert lines(handled) == []


def test_what_fails_outside_of_django_is_told_of_without_its_address(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARRY_INSTANCE", "main")
    logger_class = importlib.import_module("project.gunicorn").logger_class
    logger = logger_class.__new__(logger_class)
    logger.error_log = logging.getLogger("tests.gunicorn")
    logger.exception("Error handling request %s %s", "GET", SIGNED)
    logger.exception("Something else: %s", "told")
    assert [line["message"] for line in lines(caplog)] == ["Error handling request", "Something else: told"]


def test_what_else_is_logged_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("tests").warning("%s of %s", 1, 2, extra={"request": object()})
    assert [line["message"] for line in lines(caplog)] == ["1 of 2"]
