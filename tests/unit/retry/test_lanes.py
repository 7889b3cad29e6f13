"""The publishers of work: Celery's queues, or those that a lane's settings name."""

from collections.abc import Sequence

import pytest
from pytest_django import Settings

from retry import lanes
from retry.work import Argument

handed: list[tuple[object, ...]] = []
sent: list[tuple[object, ...]] = []


def take(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    handed.append((task, work_key, token, tuple(arguments), lane))


@pytest.fixture(autouse=True)
def _records(monkeypatch: pytest.MonkeyPatch) -> None:
    handed.clear()
    sent.clear()
    monkeypatch.setattr(
        "celery.current_app.send_task", lambda task, args, queue, **_: sent.append((task, *args, queue))
    )


@pytest.fixture(autouse=True)
def _lanes(settings: Settings) -> None:
    settings.RETRY_LANES = {
        "paint.now": {"limit": 1, "workers": 1},
        "elsewhere": {"limit": 1, "workers": 1, "publisher": f"{__name__}.take"},
    }


def test_work_goes_to_the_publisher_that_its_lane_names() -> None:
    lanes.publish_work("t", "w:1", 5, ("a", 2), "elsewhere")
    assert handed == [("t", "w:1", 5, ("a", 2), "elsewhere")]
    assert sent == []


def test_work_of_any_other_lane_goes_to_the_queue_of_that_name() -> None:
    lanes.publish_work("t", "w:1", 5, ("a",), "paint.now")
    lanes.publish_work("t", "w:2", 6, (), "not.among.the.settings")
    assert sent == [("t", "w:1", 5, "a", "paint.now"), ("t", "w:2", 6, "not.among.the.settings")]
    assert handed == []


def test_what_a_claim_holds_is_published_by_the_same_way() -> None:
    lanes.republish_work('{"task": "t", "arguments": ["a", 2]}', "w:1", 7, "elsewhere")
    assert handed == [("t", "w:1", 7, ("a", 2), "elsewhere")]
