"""/metrics is for this machine and for token holders."""

import os
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

EMPTY = bytes(8)
"""A file of figures without any."""

ALLOWED = {
    "from this machine": {"REMOTE_ADDR": "127.0.0.1"},
    "from this machine, IPv6": {"REMOTE_ADDR": "::1"},
    "from this machine by nginx": {"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "127.0.0.1"},
    "by nginx' own socket": {"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "unix:"},
    "by a trusted proxy": {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_REAL_IP": "127.0.0.1"},
    "with the token": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer right"},
}
REFUSED = {
    "from elsewhere": {"REMOTE_ADDR": "192.0.2.1"},
    "from elsewhere by nginx": {"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "192.0.2.1"},
    "pretending": {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_REAL_IP": "127.0.0.1"},
    "pretending to be nginx": {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_REAL_IP": "unix:"},
    "passed on by a proxy on this machine": {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.1"},
    "without any address": {"REMOTE_ADDR": ""},
    "with a wrong token": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer wrong"},
    "with a wrong scheme": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Basic right"},
    "with a token that is not ASCII": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer r\u00efght"},
}


@pytest.fixture(autouse=True)
def _configured(settings: Settings) -> None:
    settings.METRICS_TOKEN = "right"
    settings.TRUSTED_PROXIES = ("10.0.0.1",)


@pytest.mark.parametrize("request_from", ALLOWED.values(), ids=ALLOWED)
def test_metrics_are_given(client: Client, request_from: dict[str, str]) -> None:
    answer = client.get("/metrics", **request_from)  # type: ignore[arg-type]
    assert answer.status_code == 200
    assert b"# HELP tarry_answers" in answer.content
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize("request_from", REFUSED.values(), ids=REFUSED)
def test_metrics_are_refused(client: Client, request_from: dict[str, str]) -> None:
    assert client.get("/metrics", **request_from).status_code == 403  # type: ignore[arg-type]


def test_without_a_token_in_the_settings_no_token_is_right(client: Client, settings: Settings) -> None:
    settings.METRICS_TOKEN = ""
    assert client.get("/metrics", REMOTE_ADDR="192.0.2.1", HTTP_AUTHORIZATION="Bearer ").status_code == 403


def test_metrics_can_be_switched_off(client: Client, settings: Settings) -> None:
    settings.OBSERVE = False
    assert client.get("/metrics").status_code == 404


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of all processes' figures."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    return tmp_path


def test_the_figures_of_all_processes_are_summed(client: Client, figures: Path) -> None:
    assert client.get("/metrics").content == b""


def test_a_process_that_has_just_begun_to_count_hides_none(client: Client, figures: Path) -> None:
    (figures / "counter_1.db").touch()
    assert client.get("/metrics").status_code == 200


def test_gauges_of_the_dead_are_forgotten(client: Client, figures: Path) -> None:
    left_behind = [figures / f"gauge_livesum_{pid}.db" for pid in (os.getpid(), 0)]
    for file in left_behind:
        file.write_bytes(EMPTY)
    assert client.get("/metrics").status_code == 200
    assert [file.exists() for file in left_behind] == [True, False]
