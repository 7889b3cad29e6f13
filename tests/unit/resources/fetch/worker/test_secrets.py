"""Secrets of hosts, as an origin receives them from a fetcher: by scheme, by task, behind redirects."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pytest_django import Settings

from resources.fetch import host_settings
from resources.fetch.host_settings import HostHeader
from resources.fetch.http.client import FetchClient
from resources.fetch.models import FetchHeader
from resources.fetch.worker import attempt
from retry.claim_state import WorkDone
from tests.chaos.certificates import Certificates
from tests.hostile.origin import Origin, answer, redirect
from tests.support.engine_runs import fetch
from tests.support.origin import page_work

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]

TRUSTED, ANY = "tests.trusted", "tests.page"
"""A task whose URLs an admin chooses, and one whose URLs anybody may choose."""


@pytest.fixture(autouse=True)
def _trusted(pages: None, settings: Settings) -> None:
    settings.FETCH_TASKS = {**settings.FETCH_TASKS, TRUSTED: "tests.support.origin.TRUSTED"}


@pytest.fixture
async def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Origin]:
    """An origin with a certificate that fetchers trust."""
    certificates = Certificates.made(tmp_path, "127.0.0.1")
    trusting = ssl.create_default_context(cafile=certificates.trusted)
    monkeypatch.setattr(attempt, "FetchClient", partial(FetchClient, tls=trusting))
    async with Origin(tls=certificates.context) as origin:
        yield origin


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The boxes that are ticked for the secret of any host."""
    found = dict[str, Any]()

    def headers(url: str) -> tuple[HostHeader, ...]:
        host = urlsplit(url).netloc
        secret, agent = FetchHeader(host=host, name="X-Token", **found), FetchHeader(host=host, name="User-Agent")
        return HostHeader.of(secret, "secret"), HostHeader.of(agent, "ours")

    monkeypatch.setattr(host_settings, "headers_for_url", headers)
    return found


async def ask(url: str, task: str) -> None:
    assert isinstance(await fetch(replace(page_work(url, url), task=task)), WorkDone)


def tokens(origin: Origin) -> list[str | None]:
    """The secrets that came with the requests. None came without the harmless field."""
    found = [asked.fields.get("x-token") for asked in origin.asked]
    assert {asked.fields["user-agent"] for asked in origin.asked} <= {"ours"}
    return found


async def test_they_go_over_https_for_urls_that_an_admin_has_chosen(secure: Origin, ticks: dict[str, Any]) -> None:
    await ask(secure.does("/a", answer(body=b"page")), TRUSTED)
    assert tokens(secure) == ["secret"]


@pytest.mark.parametrize(("is_ticked", "expected"), [(False, None), (True, "secret")])
async def test_they_go_over_http_only_where_that_is_ticked(
    origin: Origin, ticks: dict[str, Any], is_ticked: bool, expected: str | None
) -> None:
    ticks["over_http"] = is_ticked
    await ask(origin.does("/a", answer(body=b"page")), TRUSTED)
    assert tokens(origin) == [expected]


@pytest.mark.parametrize(("is_ticked", "expected"), [(False, None), (True, "secret")])
async def test_they_go_to_a_url_that_anybody_has_chosen_only_where_that_is_ticked(
    secure: Origin, ticks: dict[str, Any], is_ticked: bool, expected: str | None
) -> None:
    ticks["to_any_address"] = is_ticked
    await ask(secure.does("/a", answer(body=b"page")), ANY)
    assert tokens(secure) == [expected]


async def test_the_log_tells_once_of_a_secret_that_http_goes_without(
    origin: Origin, ticks: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_settings, "_logged_withheld", set())
    for path in ("/a", "/b"):
        await ask(origin.does(path, answer(body=b"page")), TRUSTED)
    [told] = [each for each in caplog.records if each.name == "tarry.headers"]
    assert vars(told)["header"] == f"X-Token for 127.0.0.1:{origin.port}"
    assert "secret" not in caplog.text


async def test_they_do_not_follow_a_redirect_to_another_host(
    secure: Origin, other: Origin, ticks: dict[str, Any]
) -> None:
    ticks["over_http"] = True
    await ask(other.does("/a", redirect(secure.does("/a", answer(body=b"page")))), TRUSTED)
    assert tokens(other) == ["secret"]
    assert [asked.fields.get("x-token") for asked in secure.asked] == [None]
