"""Nothing that a client sends ends a header field of the answer, and begins another."""

from typing import Any

import pytest
from django.test import Client

from feeds import views
from tests.conftest import RedisServers
from tests.support import feed_rows

from ..resources.conftest import (
    Load,
    _forgetful_process,  # noqa: F401  fixtures # noqa: F401  fixtures
    load,  # noqa: F401  fixtures # noqa: F401  fixtures
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


@pytest.fixture(autouse=True)
def _one_of_each(redis_servers: RedisServers, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("retry.lanes.publish_work", lambda *_: None)
    load("jams")
    views.forget_known_subjects()
    feed_rows.feed("sea", feed_rows.entry(1))


def check(answer: Any) -> None:
    assert answer.status_code < 500 or answer.status_code == 503
    assert "X-Injected" not in answer
    assert [value for value in answer.headers.values() if "\r" in value or "\n" in value] == []


def test_no_address_does(client: Client) -> None:
    for address in ADDRESSES:
        for fields in ({}, {"Sec-Fetch-Mode": "navigate", "Accept": "text/html"}):
            check(client.get(address, headers=fields))


def test_no_field_does(client: Client) -> None:
    for address in ("/tiles/jams/0/0/0.png", "/feeds/sea.atom", "/feeds/sea/", "/feeds/sea", "/", "/admin/login/"):
        for field in FIELDS:
            check(client.get(address, headers={field: RAW}))
