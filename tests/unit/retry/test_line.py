"""The place of work in its line, and the sentence for people."""

from dataclasses import replace

import pytest
from pytest_django import Settings

from retry import line, stores
from retry.stores import Steps
from retry.work import Work
from tests.support.claim_calls import begin, begun, start

pytestmark = pytest.mark.usefixtures("servers")


def place(work: Work) -> int | None:
    return stores.run_steps(line.find_place(work.key))


def count_elsewhere(work_key: str) -> Steps[int | None]:
    """A lane's own line, as RETRY_LANES names it."""
    yield from ()
    return {"paint:a:1": 7}.get(work_key)


def test_the_works_of_the_lane_that_were_queued_before_are_counted_until_it_starts(work: Work) -> None:
    assert place(work) is None
    for number in range(2):
        begin(replace(work, key=f"earlier:{number}"))
    token = begun(work).token
    assert place(work) == 2
    start(work, token)
    assert place(work) is None


def test_a_lane_may_count_for_itself(work: Work, settings: Settings) -> None:
    here = "tests.unit.retry.test_line.count_elsewhere"
    settings.RETRY_LANES = {"paint.now": {"limit": 9, "workers": 1, "line": here}}
    begin(work)
    assert place(work) == 7


@pytest.mark.parametrize(
    ("host", "before", "sentence"),
    [
        ("example.org", 2, "Waiting for example.org, 3 in line."),
        ("example.org", None, "Waiting for example.org."),
        ("", 1234, "Waiting, 1,235 in line."),
        ("", None, "Work on it has begun."),
    ],
)
def test_people_are_told_whom_and_how_many_they_wait_for(host: str, before: int | None, sentence: str) -> None:
    assert line.describe_wait(host, before) == sentence
