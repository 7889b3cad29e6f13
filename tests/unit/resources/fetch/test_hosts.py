"""The headers that are sent to a host."""

import logging
import os
from collections.abc import Iterator

import pytest
from django.db import OperationalError

from resources.fetch import host_settings
from resources.fetch.models import FetchHeader

pytestmark = pytest.mark.django_db

HOST = "a.example.com:8080"


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host_settings, "HEADERS_SNAPSHOT_SECONDS", 0)
    monkeypatch.setattr(host_settings, "_logged_missing", set())
    host_settings.headers_snapshot.forget()
    yield
    host_settings.headers_snapshot.forget()


def header(name: str = "Referer", value: str = "https://example.org/", host: str = HOST, **given: str) -> FetchHeader:
    sealed = "" if "variable" in given else host_settings.seal_value(value)
    return FetchHeader.objects.create(host=host, name=name, **{"sealed": sealed, **given})


def test_a_host_has_its_own_headers_and_no_others() -> None:
    header()
    header("Authorization", "Bearer x")
    header(host="b.example.com", value="other")
    assert host_settings.headers_for_host(HOST) == {"Referer": "https://example.org/", "Authorization": "Bearer x"}
    assert host_settings.headers_for_host("a.example.com") == {}


def test_a_value_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    header(variable="FETCH_HEADER_TILES")
    assert host_settings.headers_for_host(HOST) == {}
    monkeypatch.setenv("FETCH_HEADER_TILES", "secret")
    assert host_settings.headers_for_host(HOST) == {"Referer": "secret"}


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "x" * 4001])
def test_a_value_that_cannot_be_sent_is_left_out(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "environ", {"FETCH_HEADER_TILES": value})
    header(variable="FETCH_HEADER_TILES")
    header("X-Other", "sent")
    with caplog.at_level(logging.ERROR, "tarry.headers"):
        assert host_settings.headers_for_host(HOST) == {"X-Other": "sent"}
        assert host_settings.headers_for_host(HOST) == {"X-Other": "sent"}
    assert len(caplog.records) == 1
    assert value not in caplog.text


def test_a_value_whose_key_is_gone_is_left_out_until_it_is_set_again() -> None:
    kept = header(sealed="gAAAAA")
    assert host_settings.headers_for_host(HOST) == {}
    FetchHeader.objects.filter(pk=kept.pk).update(sealed=host_settings.seal_value("new"))
    assert host_settings.headers_for_host(HOST) == {"Referer": "new"}


def test_a_database_that_is_away_leaves_the_last_ones_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    header()
    known = host_settings.headers_for_host(HOST)

    def away() -> None:
        raise OperationalError

    monkeypatch.setattr(FetchHeader.objects, "all", away)
    assert host_settings.headers_for_host(HOST) == known != {}


def test_nobody_can_change_what_all_share() -> None:
    header()
    with pytest.raises(TypeError):
        host_settings.headers_for_host(HOST)["X"] = "y"  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "value", "can_be_sent"),
    [
        ("Authorization", "Bearer x", True),
        ("User-Agent", "tiles (+ops@example.org)", True),
        ("Host", "other.example.com", False),
        ("content-length", "3", False),
        ("A B", "x", False),
        ("", "x", False),
        ("X", "a\r\nEvil: 1", False),
    ],
)
def test_what_a_fetch_would_refuse_is_a_problem(name: str, value: str, can_be_sent: bool) -> None:
    assert bool(host_settings.find_header_problem(name, value)) is not can_be_sent
