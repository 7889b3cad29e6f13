"""Large files for the admin, through the whole site: taken from signed-in users, refused unread from others."""

from secrets import token_hex, token_urlsafe
from uuid import uuid4

import pytest
import requests

from ..support.stack import Stack

ADMIN = """
from django.contrib.auth.models import User
User.objects.create_superuser("{name}", password="{password}")
"""
LIST = '<opml version="2.0"><!--{}--><body><outline text="a" xmlUrl="https://sea.example/feed"/></body></opml>'
LARGE = LIST.format("x" * 5_000_000).encode()


@pytest.fixture
def admin(stack: Stack) -> requests.Session:
    """Signed in to the admin."""
    session, address = requests.Session(), f"{stack.base_url}/admin/login/"
    named = {"username": f"uploader-{uuid4().hex[:8]}", "password": token_urlsafe(16)}
    stack.manage("shell", "-c", ADMIN.format(name=named["username"], password=named["password"]))
    session.get(address, timeout=10)
    told = {**named, "csrfmiddlewaretoken": session.cookies["csrftoken"]}
    assert session.post(address, told, headers={"Referer": address}, timeout=10).ok
    return session


def send(stack: Stack, session: requests.Session, body: bytes = LARGE) -> requests.Response:
    address = f"{stack.base_url}/admin/feeds/feed/import/"
    told = {"csrfmiddlewaretoken": session.cookies["csrftoken"], "dry_run": "on"}
    return session.post(address, told, files={"file": body}, headers={"Referer": address}, timeout=60)


def test_who_is_signed_in_sends_a_large_file(stack: Stack, admin: requests.Session) -> None:
    answer = send(stack, admin)
    assert answer.status_code == 200
    assert "sea.example" in answer.text


@pytest.mark.parametrize("size", [70_000, 5_000_000])
def test_a_stranger_with_cookies_of_its_own_is_refused(stack: Stack, size: int) -> None:
    stranger = requests.Session()
    stranger.cookies.update({"csrftoken": token_hex(16), "sessionid": token_hex(16)})
    answer = send(stack, stranger, LIST.format("x" * size).encode())
    assert (answer.status_code, "Not accepted" in answer.text) == (403, True)


def test_who_was_signed_in_is_told_to_sign_in_again(stack: Stack, admin: requests.Session) -> None:
    admin.post(
        f"{stack.base_url}/admin/logout/",
        {"csrfmiddlewaretoken": admin.cookies["csrftoken"]},
        headers={"Referer": stack.base_url},
        timeout=10,
    )
    answer = send(stack, admin)
    assert (answer.status_code, "Sign in" in answer.text) == (403, True)
