"""All addresses of the site: their methods, and that nothing sent to them ends a field or leads elsewhere."""

import json
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import pytest
from django.contrib.auth.models import User
from django.test import Client

from feeds import views
from tests.conftest import RedisServers
from tests.support import feed_rows

from ..resources.conftest import (
    Load,
    _forgetful_process,  # noqa: F401  fixtures
    load,  # noqa: F401  fixtures
)

END = "%0d%0aX-Injected:%20yes%0d%0a%0d%0abody"
RAW = "\r\nX-Injected: yes\r\n\r\nbody"
ADDRESSES = [
    *(f"/{END}", f"/tiles/jams/0/0/0.png{END}", f"/tiles/{END}.json", f"/tiles/jams/0/0/0.png?{END}={END}"),
    *(f"/feeds/{END}", f"/feeds/sea{END}/", f"/feeds/sea.atom?q={END}", f"/feeds?{END}", f"/feeds/sea?{END}"),
    *(f"/layers/jams?{END}", f"/layers/{END}/", f"/resources/{'a' * 64}{END}", f"/resources/x/{END}"),
    *(f"/retry_after?redirect=/{END}&sig={END}", f"/retry_after/status?{END}", f"/staticmap?layers=jams&size={END}"),
    *(f"/admin/{END}", f"/admin?{END}", f"/admin/login/?next={END}", f"/api/{END}", f"/rsscloud/{END}?url={END}"),
    *(f"/websub/x?hub.challenge={END}", f"/tiles/jams/0/0/0.png?next=//{END}", f"/changes.json?since={END}"),
]
FIELDS = ["Accept", "Prefer", "If-None-Match", "Origin", "Referer", "Cookie", "Host", "X-Forwarded-Host", "User-Agent"]


ELSEWHERE = ["//evil.example", "/\\evil.example", "\\\\evil.example", "https:evil.example", "https://evil.example"]
ELSEWHERE += ["//evil.example/%2e%2e", "javascript:alert(1)", "///evil.example"]
HERE = ["%2f%2fevil.example", "/%09/evil.example"]
LEADING = ["{}", "{}/", "/{}", "/feeds{}", "/feeds/{}", "/feeds/sea?next={}", "/layers/{}", "/layers{}", "/admin{}"]
LEADING += ["/admin/{}", "/admin?next={}", "/admin/?next={}", "/retry_after?redirect={}", "/admin/logout/?next={}"]
SITE = "http://testserver/"


@pytest.fixture
def one_of_each(redis_servers: RedisServers, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("retry.lanes.publish_work", lambda *_: None)
    load("jams")
    views._known_subjects.clear()
    feed_rows.feed("sea", feed_rows.entry(1))


def check(answer: Any) -> None:
    assert answer.status_code < 500 or answer.status_code == 503
    assert "X-Injected" not in answer
    assert [value for value in answer.headers.values() if "\r" in value or "\n" in value] == []


@pytest.mark.usefixtures("one_of_each")
def test_no_address_ends_a_header_field(client: Client) -> None:
    for address in ADDRESSES:
        for fields in ({}, {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}):
            check(client.get(address, headers=fields))


@pytest.mark.usefixtures("one_of_each")
def test_no_field_ends_a_header_field(client: Client) -> None:
    for address in ("/tiles/jams/0/0/0.png", "/feeds/sea.atom", "/feeds/sea/", "/feeds/sea", "/", "/admin/login/"):
        for field in FIELDS:
            check(client.get(address, headers={field: RAW}))


def led_to(location: str) -> str:
    """The host that a browser goes to, which takes \\ for / and leaves tabs out."""
    seen = location.replace("\\", "/").replace("\t", "").replace("\n", "")
    return urlsplit(urljoin(SITE, seen)).netloc


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
@pytest.mark.parametrize("target", ELSEWHERE + HERE)
def test_no_redirect_leads_elsewhere(client: Client, target: str) -> None:
    views._known_subjects.clear()
    feed_rows.feed("sea")
    for address in LEADING:
        assert led_to(client.get(address.format(target)).get("Location", "/")) == "testserver", address


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
@pytest.mark.parametrize("target", ELSEWHERE + HERE)
def test_a_user_who_signs_in_stays_here(client: Client, target: str) -> None:
    User.objects.create_superuser("owner", password="fifteen white horses")
    named = {"username": "owner", "password": "fifteen white horses", "next": target}
    answer = client.post("/admin/login/", named)
    assert (answer.status_code, led_to(answer["Location"])) == (302, "testserver")
    assert target in HERE or answer["Location"] == "/admin/"


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize(
    "address",
    [
        *("/", "/changes.json", "/favicon.ico", "/healthz", "/metrics", "/retry_after", "/retry_after/status"),
        *("/healthz/live", "/healthz/ready"),
        *("/feeds/all.atom", "/feeds/news/", "/layers/jams", "/layers/jams/", "/layers/a/b", "/staticmap"),
        *("/robots.txt", "/tiles/jams.json", "/tiles/jams/0/0/0.png", "/resources/", "/resources/abc", "/admin"),
        f"/resources/{64 * '0'}",
    ],
)
def test_a_method_that_changes_things_is_not_allowed(address: str, method: str) -> None:
    response = getattr(Client(enforce_csrf_checks=True), method)(address)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert response["Content-Type"] == "application/problem+json"
    assert json.loads(response.content)["status"] == 405
    assert response["Access-Control-Allow-Origin"] == "*"


def test_search_engines_leave_searches_and_the_api_out_and_nothing_on_the_way_to_a_cold_page(client: Client) -> None:
    answer = client.get("/robots.txt")
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; charset=utf-8")
    robots = RobotFileParser()
    lines = answer.content.decode().splitlines()
    assert {"Disallow: /feeds/*?q=", "Disallow: /feeds/*&q="} <= set(lines)  # its parser knows no patterns
    robots.parse(lines)
    for address, is_open in (("/api/layers", False), ("/feeds/", True), ("/retry_after?hop=1", True), ("/", True)):
        assert robots.can_fetch("Searcher", address) is is_open


def test_browsers_that_look_for_an_icon_by_themselves_find_it(client: Client) -> None:
    response = client.get("/favicon.ico")
    assert (response.status_code, response["Location"]) == (302, "/static/resources/icon.svg")
    assert response["Cache-Control"] == "public, max-age=300"
