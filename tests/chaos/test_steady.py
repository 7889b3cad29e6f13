"""The steady client: it outlives every answer, and reports its own failures."""

import json
from collections.abc import Iterator
from threading import Event

import pytest

from ..support.server import Handler, serving
from ..support.stack import eventually
from .steady import End, Kind, Question, Steady

OFTEN = 50
"""Questions a second."""
SECONDS = 10
silent = Event()


class Odd(Handler):
    def do_GET(self) -> None:  # noqa: N802  as the library calls it
        match self.path:
            case "/nowhere":
                self.answer(302, b"")
            case "/nonsense":
                self.answer(302, b"", Location="http://[nonsense/")
            case "/silent":
                silent.wait(SECONDS)
            case _:
                self.answer(200, b"<html>no JSON</html>")


@pytest.fixture
def site() -> Iterator[str]:
    silent.clear()
    with serving(Odd) as url:
        yield url
        silent.set()


def asked(number: int) -> Question:
    """Questions for JSON with a name, some with a redirect to nowhere."""
    return Question(("/text", "/nowhere", "/nonsense")[number % 3], lambda body: bool(json.loads(body)["name"]))


def test_what_cannot_be_read_is_wrong_and_what_leads_nowhere_dishonest(site: str) -> None:
    with Steady(site, [Kind("odd", OFTEN, asked)]) as client:
        eventually(lambda: len(client.records) >= 9, SECONDS, "there are as many records")
        assert client.died == ""
    ends = {record.address: record.end for record in client.records}
    assert ends == {"/text": End.WRONG, "/nowhere": End.DISHONEST, "/nonsense": End.DISHONEST}


def test_all_that_has_begun_is_recorded_when_it_is_left(site: str) -> None:
    with Steady(site, [Kind("odd", OFTEN, asked)]) as client:
        eventually(lambda: client.begun > 5, SECONDS, "some have begun")
        client.leave()
        assert client.begun == len(client.records)
        assert client.waits_since == float("inf")


def test_a_visit_without_end_is_cut_short_and_recorded_as_hung(site: str) -> None:
    with Steady(site, [Kind("silent", 0.1, lambda _: Question("/silent", bool))]) as client:
        eventually(lambda: client.begun == 1, SECONDS, "it has begun")
        client.leave(0.1)
        assert [(record.end, record.detail) for record in client.records] == [(End.HUNG, "cut short")]
        assert client.waits_since == float("inf")


def test_a_client_that_dies_says_what_of(site: str) -> None:
    def question(number: int) -> Question:
        raise KeyError(f"no question {number}")

    with Steady(site, [Kind("none", OFTEN, question)]) as client:
        eventually(lambda: client.died, SECONDS, "it has died")
    assert "no question 0" in client.died
