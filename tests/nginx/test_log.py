"""The log of failures: a line for each request that the front, or an instance, answered badly."""

import json
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import pytest

from project import nginx_config

from ..support.stack import eventually
from .conftest import RunningFront, Start
from .origin import PRIVATE, Answer, Asked

TILE = "/tiles/jams/1/0/0.png"
WAIT = "/retry_after?key=a"


@pytest.fixture
def impatient(start: Start, monkeypatch: pytest.MonkeyPatch) -> RunningFront:
    monkeypatch.setattr(nginx_config, "MAIN_TIMEOUT_SECONDS", 1)
    return start(proxy_timeout_seconds=1)


@pytest.fixture
def silence() -> Iterator[Callable[[Asked], Answer]]:
    """An origin without an answer before the test is over."""
    over = Event()

    def wait(_: Asked) -> Answer:
        over.wait(20)
        return Answer(hang_up=True)

    yield wait
    over.set()


def logged(site: RunningFront, number: int) -> list[dict[str, Any]]:
    """Returns this many lines about the test's host, and checks that there are no more."""

    def lines() -> list[dict[str, Any]]:
        written = [json.loads(line) for line in site.log.read_text().splitlines() if line.endswith("}")]
        return [line for line in written if line["host"] == site.host]

    eventually(lambda: len(lines()) >= number, 5, f"{number} lines")
    assert len(lines()) == number
    return lines()


def said(line: dict[str, Any]) -> tuple[str, int, str]:
    return line["request"], line["status"], line["upstream"]


@pytest.mark.parametrize("target", [TILE, WAIT, "/admin/", "/healthz"])
def test_an_instance_that_is_away_is_logged(site: RunningFront, target: str) -> None:
    site.main.close()
    site.retry.close()
    assert site.get(target).status == 503
    assert [said(line) for line in logged(site, 1)] == [(f"GET {target} HTTP/1.1", 503, "502, 502")]


@pytest.mark.parametrize("target", [TILE, WAIT])
def test_an_instance_that_is_silent_is_logged(
    impatient: RunningFront, silence: Callable[[Asked], Answer], target: str
) -> None:
    impatient.main.answer = impatient.retry.answer = silence
    assert impatient.get(target).status == 503
    assert [said(line) for line in logged(impatient, 1)] == [(f"GET {target} HTTP/1.1", 503, "504")]


def test_a_waiting_instance_that_dies_over_what_main_handed_over_is_logged(site: RunningFront) -> None:
    site.main.answer = lambda _: Answer(headers={**PRIVATE, "X-Accel-Redirect": "@wait", "X-Ticket": "key=a"})
    site.retry.answer = lambda _: Answer(hang_up=True)
    assert site.get(TILE).status == 503
    assert [said(line) for line in logged(site, 1)] == [(f"GET {TILE} HTTP/1.1", 503, "200 : 502, 502")]


@pytest.mark.parametrize("status", [500, 502, 504])
def test_what_an_instance_answers_badly_is_logged(site: RunningFront, status: int) -> None:
    site.main.answer = lambda _: Answer(status, dict(PRIVATE))
    assert site.get(TILE).status == status
    assert [said(line) for line in logged(site, 1)] == [(f"GET {TILE} HTTP/1.1", status, str(status))]


def test_nothing_else_is_logged(site: RunningFront) -> None:
    for number, status in enumerate((200, 302, 404, 429, 503)):
        site.main.answer = lambda _, status=status: Answer(status, {**PRIVATE, "Location": "/"})  # type: ignore[misc]
        assert site.get(f"{TILE}{number}").status == status
    site.main.answer = lambda _: Answer(500, dict(PRIVATE))
    site.get("/500")
    assert [said(line) for line in logged(site, 1)] == [("GET /500 HTTP/1.1", 500, "500")]
