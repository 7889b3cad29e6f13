"""What the site says while something is away, and when it fails."""

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.test import Client

from project import metrics
from retry.errors import StoreUnavailable

ADMIN = ["/admin/", "/admin/resources/layer/", "/admin/feeds/feed/add/", "/admin/auth/user/1/change/"]
PERSON = {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin(admin_user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(admin_user)
    return client


def away(*_: Any) -> Any:
    raise OperationalError("the server closed the connection")


@pytest.mark.parametrize("address", ADMIN)
def test_the_admin_says_when_to_come_again_while_the_database_is_away(admin: Client, address: str) -> None:
    with connection.execute_wrapper(away):
        answer = admin.get(address, headers=PERSON)
    assert (answer.status_code, answer["Retry-After"], answer["Cache-Control"]) == (503, "1", "no-store")
    assert b"Not now" in answer.content


@pytest.mark.parametrize("address", ["/admin/resources/layer/add/", "/admin/login/"])
def test_so_it_does_where_a_form_cannot_be_stored(admin: Client, address: str) -> None:
    form = {"username": "admin", "password": "a guess", "title": "A layer"}
    with connection.execute_wrapper(away):
        answer = admin.post(address, form, headers=PERSON)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")


def test_so_it_does_where_a_session_cannot_be_stored(admin: Client) -> None:
    def only_read(execute: Any, sql: str, *given: Any) -> Any:
        return execute(sql, *given) if sql.startswith("SELECT") else away()

    with connection.execute_wrapper(only_read):
        answer = admin.post("/admin/logout/", headers=PERSON)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")


def test_a_program_is_told_by_a_problem(admin: Client) -> None:
    with connection.execute_wrapper(away):
        answer = admin.get("/admin/")
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/problem+json")
    assert answer["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("error", "status"), [(InterfaceError, 503), (StoreUnavailable, 503), (DatabaseError, 500), (KeyError, 500)]
)
@pytest.mark.parametrize("is_person", [True, False])
def test_only_what_is_away_comes_back(
    error: type[Exception], status: int, is_person: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise error("state.internal:6379")

    monkeypatch.setattr(metrics, "_registry", broken)
    monkeypatch.setattr(settings, "OBSERVE", True)
    client = Client(raise_request_exception=False)
    answer = client.get("/metrics", headers=PERSON if is_person else {})
    assert answer.status_code == status
    assert answer["Content-Type"].startswith("text/html" if is_person else "application/problem+json")
    assert b"internal" not in answer.content
