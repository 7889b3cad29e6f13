"""Large bodies reach the admin's forms from those who are signed in; of all others nothing is read."""

from typing import Any

import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client

from project.bodies import FORM_MAX_BYTES

FORGED = "a" * 32
ADDRESSES = ["/admin/resources/layer/add/", "/admin/feeds/feed/import/", "/admin/login/", "/admin/x/", "/admin/"]

pytestmark = pytest.mark.django_db


class Body:
    """Longer than anybody wants to read, and says whether somebody began."""

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


def assert_is_refused(answer: Any) -> None:
    assert (answer.status_code, answer["Cache-Control"]) == (403, "no-store")
    assert b"Sign in" in answer.content
    assert "default-src 'self'" in answer["Content-Security-Policy"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_of_a_strangers_large_body_nothing_is_read(stranger: Client, address: str) -> None:
    body = Body()
    assert_is_refused(send(stranger, address, body))
    assert not body.is_read


@pytest.mark.parametrize("session", ["", FORGED, "x" * 10_000])
def test_a_session_that_is_none_does_not_help(stranger: Client, session: str) -> None:
    stranger.cookies[settings.SESSION_COOKIE_NAME] = session
    body = Body()
    assert_is_refused(send(stranger, ADDRESSES[0], body, FORM_MAX_BYTES + 1))
    assert not body.is_read


@pytest.mark.parametrize("changes", [{"is_staff": False}, {"is_active": False}])
def test_nor_does_one_of_somebody_who_may_not_enter(
    stranger: Client, admin_user: User, changes: dict[str, bool]
) -> None:
    stranger.force_login(admin_user)
    User.objects.update(**changes)
    body = Body()
    assert_is_refused(send(stranger, ADDRESSES[0], body))
    assert not body.is_read


def test_nor_does_one_that_was_ended(stranger: Client, admin_user: User) -> None:
    stranger.force_login(admin_user)
    session = stranger.cookies[settings.SESSION_COOKIE_NAME].value
    stranger.logout()
    stranger.cookies[settings.SESSION_COOKIE_NAME] = session
    stranger.cookies["csrftoken"] = FORGED
    body = Body()
    assert_is_refused(send(stranger, ADDRESSES[0], body))
    assert not body.is_read


def test_who_is_signed_in_sends_as_much_as_ever(stranger: Client, admin_user: User) -> None:
    stranger.force_login(admin_user)
    body = Body()
    assert send(stranger, ADDRESSES[0], body).status_code == 403  # it is read, and has no token of a form
    assert body.is_read


def test_a_strangers_form_is_read(stranger: Client) -> None:
    body = Body()
    send(stranger, "/admin/login/", body, FORM_MAX_BYTES)
    assert body.is_read


@pytest.mark.parametrize("length", ["", "-1", "many", "9" * 5_000])
def test_what_has_no_length_has_no_body(stranger: Client, length: str) -> None:
    sent: dict[str, Any] = {"CONTENT_LENGTH": length, "wsgi.input": Body()}
    assert b"Reload the page" in stranger.generic("POST", "/admin/login/", **sent).content


def test_without_a_database_nobody_can_tell_and_nothing_is_read(
    stranger: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: Any) -> bool:
        raise OperationalError

    monkeypatch.setattr(admin.site, "has_permission", unknown)
    stranger.raise_request_exception = False
    body = Body()
    answer = send(stranger, ADDRESSES[0], body)
    assert (answer.status_code, answer["Retry-After"], body.is_read) == (503, "1", False)
