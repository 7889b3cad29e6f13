"""No address of this site leads a browser to another one (open redirects). Tickets have tests of their own."""

from urllib.parse import urljoin, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client

from feeds import views
from tests.support import feed_rows

ELSEWHERE = ["//evil.example", "/\\evil.example", "\\\\evil.example", "https:evil.example", "https://evil.example"]
ELSEWHERE += ["//evil.example/%2e%2e", "javascript:alert(1)", "///evil.example"]
HERE = ["%2f%2fevil.example", "/%09/evil.example"]
ADDRESSES = ["{}", "{}/", "/{}", "/feeds{}", "/feeds/{}", "/feeds/sea?next={}", "/layers/{}", "/layers{}", "/admin{}"]
ADDRESSES += ["/admin/{}", "/admin?next={}", "/admin/?next={}", "/retry_after?redirect={}", "/admin/logout/?next={}"]
SITE = "http://testserver/"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


def led_to(location: str) -> str:
    """The host that a browser goes to, which takes \\ for / and leaves tabs out."""
    seen = location.replace("\\", "/").replace("\t", "").replace("\n", "")
    return urlsplit(urljoin(SITE, seen)).netloc


@pytest.mark.parametrize("target", ELSEWHERE + HERE)
def test_no_redirect_leads_elsewhere(client: Client, target: str) -> None:
    views.forget_known_subjects()
    feed_rows.feed("sea")
    for address in ADDRESSES:
        answer = client.get(address.format(target))
        assert led_to(answer.get("Location", "/")) == "testserver", address


@pytest.mark.parametrize("target", ELSEWHERE + HERE)
def test_who_signs_in_stays_here(client: Client, target: str) -> None:
    User.objects.create_superuser("owner", password="fifteen white horses")
    named = {"username": "owner", "password": "fifteen white horses", "next": target}
    answer = client.post("/admin/login/", named)
    assert (answer.status_code, led_to(answer["Location"])) == (302, "testserver")
    assert target in HERE or answer["Location"] == "/admin/"
