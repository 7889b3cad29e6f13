"""Middleware: large bodies for the admin from signed-in users only; error pages during outages; policies of pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.http import HttpResponse
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware
from django.test import Client, RequestFactory
from pytest_django import Settings

from project import exporter
from project.middleware import (
    FORM_MAX_BYTES,
    FULL_LOOK_SECONDS,
    NOT_KEPT_HEADER,
    HotBudget,
    HotCacheMiddleware,
    PagePoliciesMiddleware,
)
from resources.disk.shares import HOT_BURST_SECONDS
from retry.errors import StoreUnavailable
from tests.support.bounded_disk import bound_disk

FORGED = "a" * 32
ADDRESSES = ["/admin/resources/layer/add/", "/admin/feeds/feed/import/", "/admin/login/", "/admin/x/", "/admin/"]

pytestmark = pytest.mark.django_db


class Body:
    """A body longer than any reader wants, which notes that it was read."""

    is_read = False

    def read(self, size: int = -1) -> bytes:
        self.is_read = True
        return b""

    readline = read

    def __len__(self) -> int:
        return 0


@pytest.fixture
def stranger() -> Client:
    """With a cookie against forged forms that it made up itself."""
    client = Client(enforce_csrf_checks=True)
    client.cookies["csrftoken"] = FORGED
    return client


def send(client: Client, address: str, body: Body, length: int = 200_000_000) -> Any:
    told = {"CONTENT_TYPE": "multipart/form-data; boundary=x", "CONTENT_LENGTH": str(length)}
    sent: dict[str, Any] = {**told, "wsgi.input": body}
    return client.generic("POST", address, **sent)


def assert_refuses_unread(client: Client, address: str = ADDRESSES[0], length: int = 200_000_000) -> None:
    body = Body()
    answer = send(client, address, body, length)
    assert (answer.status_code, answer["Cache-Control"], body.is_read) == (403, "no-store", False)
    assert b"Sign in" in answer.content


@pytest.mark.parametrize("address", ADDRESSES)
def test_of_a_strangers_large_body_nothing_is_read(stranger: Client, address: str) -> None:
    assert_refuses_unread(stranger, address)


@pytest.mark.parametrize("session", ["", FORGED, "x" * 10_000])
def test_a_session_that_is_none_does_not_help(stranger: Client, session: str) -> None:
    stranger.cookies[settings.SESSION_COOKIE_NAME] = session
    assert_refuses_unread(stranger, length=FORM_MAX_BYTES + 1)


@pytest.mark.parametrize("changes", [{"is_staff": False}, {"is_active": False}])
def test_neither_does_one_of_a_user_without_permission(
    stranger: Client, admin_user: User, changes: dict[str, bool]
) -> None:
    stranger.force_login(admin_user)
    User.objects.update(**changes)
    assert_refuses_unread(stranger)


def test_neither_does_one_that_was_ended(stranger: Client, admin_user: User) -> None:
    stranger.force_login(admin_user)
    session = stranger.cookies[settings.SESSION_COOKIE_NAME].value
    stranger.logout()
    stranger.cookies.load({settings.SESSION_COOKIE_NAME: session, "csrftoken": FORGED})
    assert_refuses_unread(stranger)


def test_a_strangers_form_is_read_and_as_much_as_ever_of_who_is_signed_in(stranger: Client, admin_user: User) -> None:
    form, large = Body(), Body()
    send(stranger, "/admin/login/", form, FORM_MAX_BYTES)
    stranger.force_login(admin_user)
    assert send(stranger, ADDRESSES[0], large).status_code == 403  # it is read, and has no token of a form
    assert (form.is_read, large.is_read) == (True, True)


@pytest.mark.parametrize("length", ["", "-1", "many", "9" * 5_000])
def test_what_has_no_length_has_no_body(stranger: Client, length: str) -> None:
    sent: dict[str, Any] = {"CONTENT_LENGTH": length, "wsgi.input": Body()}
    assert b"Reload the page" in stranger.generic("POST", "/admin/login/", **sent).content


def test_without_a_database_nothing_is_read(stranger: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin.site, "has_permission", Mock(side_effect=OperationalError))
    stranger.raise_request_exception = False
    body = Body()
    answer = send(stranger, ADDRESSES[0], body)
    assert (answer.status_code, answer["Retry-After"], body.is_read) == (503, "1", False)


PERSON = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}


@pytest.fixture
def admin_client(admin_user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(admin_user)
    return client


def away(*_: Any) -> Any:
    raise OperationalError("the server closed the connection")


@pytest.mark.parametrize(
    ("method", "address"),
    [
        *(("get", f"/admin/{page}") for page in ("", "resources/layer/", "feeds/feed/add/", "auth/user/1/change/")),
        *(("post", f"/admin/{page}") for page in ("resources/layer/add/", "login/")),
    ],
)
def test_the_admin_says_when_to_come_again_while_the_database_is_away(
    admin_client: Client, method: str, address: str
) -> None:
    form = {"username": "admin", "password": "a guess", "title": "A layer"}
    with connection.execute_wrapper(away):
        answer = getattr(admin_client, method)(address, form, headers=PERSON)
    assert (answer.status_code, answer["Retry-After"], answer["Cache-Control"]) == (503, "1", "no-store")
    assert b"Not available now" in answer.content


def test_so_it_does_where_a_session_cannot_be_stored(admin_client: Client) -> None:
    def only_read(execute: Any, sql: str, *given: Any) -> Any:
        return execute(sql, *given) if sql.startswith("SELECT") else away()

    with connection.execute_wrapper(only_read):
        answer = admin_client.post("/admin/logout/", headers=PERSON)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")


@pytest.mark.parametrize(
    ("error", "status"), [(InterfaceError, 503), (StoreUnavailable, 503), (DatabaseError, 500), (KeyError, 500)]
)
@pytest.mark.parametrize("is_person", [True, False])
def test_only_what_is_away_comes_back(
    error: type[Exception], status: int, is_person: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "process_registry", Mock(side_effect=error("state.internal:6379")))
    monkeypatch.setattr(settings, "OBSERVE", True)
    answer = Client(raise_request_exception=False).get("/metrics", headers=PERSON if is_person else {})
    assert (answer.status_code, answer.get("Retry-After")) == (status, "1" if status == 503 else None)
    assert answer["Content-Type"].startswith("text/html" if is_person else "application/problem+json")
    assert b"internal" not in answer.content


@pytest.mark.parametrize("address", ["/staticmap/", "/nothing", "/feed.php?a=1", "/retry_after/x"])
def test_an_unknown_address_is_answered_by_a_problem_and_to_people_by_a_page(client: Client, address: str) -> None:
    problem, page = client.get(address), client.get(address, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (problem.status_code, problem["Content-Type"]) == (404, "application/problem+json")
    assert problem.json()["detail"] == "There is no such address."
    assert (page.status_code, page["Content-Type"].partition(";")[0]) == (404, "text/html")
    assert problem["Cache-Control"] == page["Cache-Control"] == "no-store"


MANY = "&".join(f"a{number}=1" for number in range(1500))
FORM = "application/x-www-form-urlencoded"
REFUSED: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "arguments": (f"/feeds/?{MANY}", {}, 400, "at most 1,000 arguments"),
    "arguments without values": (f"/feeds/?{'q&' * 1500}", {}, 400, "at most 1,000 arguments"),
    "arguments of a map": (f"/staticmap?{MANY}", {}, 400, "at most 1,000 arguments"),
    "fields of a form": ("/admin/login/", {"data": MANY, "content_type": FORM}, 400, "as many fields of a form"),
    "a form without its token": ("/admin/login/", {"data": "a=1", "content_type": FORM}, 403, "Reload the page"),
    "a foreign host": ("/", {"HTTP_HOST": "evil.example"}, 400, "not in ALLOWED_HOSTS"),
}


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize(("asking", "kind"), [(PERSON, "text/html; charset=utf-8"), ({}, "application/problem+json")])
def test_what_django_refuses_is_a_problem_and_for_people_a_page(
    stranger: Client, refused: str, asking: dict[str, str], kind: str
) -> None:
    address, given, status, words = REFUSED[refused]
    answer = stranger.generic("POST" if "data" in given else "GET", address, headers=asking, **given)
    assert (answer.status_code, answer["Content-Type"], answer["Cache-Control"]) == (status, kind, "no-store")
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert words in answer.content.decode()


@pytest.mark.parametrize(
    ("content_type", "own_policy", "kept"),
    [("image/png", "", False), ("image/svg+xml", "", True), ("text/html", "", True), ("image/png", "sandbox", True)],
)
def test_pictures_have_no_policies_of_pages_unless_they_are_files_of_others(
    content_type: str, own_policy: str, kept: bool
) -> None:
    answer = HttpResponse(b"", content_type=content_type)
    if own_policy:
        answer["Content-Security-Policy"] = own_policy
    of_django = SecurityMiddleware(XFrameOptionsMiddleware(lambda _: answer).__call__)
    respond = PagePoliciesMiddleware(lambda request: cast("HttpResponse", of_django(request)))
    names = ("X-Frame-Options", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy")
    response = respond(RequestFactory().get("/"))
    assert [name in response for name in names] == [kept] * 4
    assert ("Content-Security-Policy" in response) == (content_type == "text/html" or bool(own_policy))


@pytest.fixture
def disk(settings: Settings, tmp_path: Path) -> Callable[[bool], object]:
    """Bounds the disk: a full one, or one with room."""
    return lambda is_full: bound_disk(settings, tmp_path, 10**9, is_full=is_full)


def test_the_budget_of_the_hot_cache_comes_back_as_it_was_taken() -> None:
    budget = HotBudget(30_000)
    assert [budget.take(1_000, seconds) for seconds in (0.5, 12.0, 12.0)] == [True, True, False]
    assert not budget.take(1_000, HOT_BURST_SECONDS + 0.4)
    assert [budget.take(1_000, HOT_BURST_SECONDS + 1.0) for _ in range(2)] == [True, False]  # what was taken at 0.5
    assert not budget.take(10**9, 100.0)


def test_answers_are_kept_again_soon_after_the_disk_was_full(disk: Callable[[bool], object]) -> None:
    budget = HotBudget(10**9)
    disk(True)
    assert not budget.take(1_000, 0.0)
    disk(False)
    assert [budget.take(1_000, seconds) for seconds in (FULL_LOOK_SECONDS - 0.1, FULL_LOOK_SECONDS)] == [False, True]


@pytest.mark.parametrize(
    ("control", "size", "is_full", "marks"),
    [
        ("public, max-age=5", 100, False, []),
        ("public, max-age=5", 10**9, False, ["1"]),
        ("public, max-age=5", 100, True, ["1"]),
        ("no-store", 10**9, True, []),
    ],
)
def test_answers_beyond_the_budget_or_on_a_full_disk_are_marked(
    disk: Callable[[bool], object], control: str, size: int, is_full: bool, marks: list[str]
) -> None:
    disk(is_full)
    answer = HttpResponse(b"", headers={"Cache-Control": control, "Content-Length": str(size)})
    answered = HotCacheMiddleware(lambda _: answer)(Mock())
    assert [value for name, value in answered.items() if name == NOT_KEPT_HEADER] == marks
