"""The publishers of work: Celery's queues, or those that a lane's settings name."""

from collections.abc import Sequence

import pytest
from pytest_django import Settings

from retry import lanes, stores
from retry.lanes import write_claim_message
from retry.messages import Message, read_message
from retry.work import Argument, Work

handed: list[tuple[object, ...]] = []


def take(task: str, work_key: str, token: int, arguments: Sequence[Argument], lane: str) -> None:
    handed.append((task, work_key, token, tuple(arguments), lane))


def test_work_goes_to_the_publisher_that_its_lane_names_or_else_to_the_queue_of_that_name(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[object, ...]] = []
    handed.clear()
    monkeypatch.setattr(stores, "push_message", lambda queue, text: sent.append((read_message(text), queue)))
    settings.RETRY_LANES = {
        "paint.now": {"limit": 1, "workers": 1},
        "elsewhere": {"limit": 1, "workers": 1, "publisher": f"{__name__}.take"},
    }
    lanes.publish_work("t", "w:1", 5, ("a", 2), "elsewhere")
    lanes.republish_work('{"task": "t", "arguments": ["a", 2]}', "w:1", 7, "elsewhere")  # what a claim holds
    assert handed == [("t", "w:1", token, ("a", 2), "elsewhere") for token in (5, 7)]
    assert sent == []
    lanes.publish_work("t", "w:1", 5, ("a",), "paint.now")
    lanes.publish_work("t", "w:2", 6, (), "not.among.the.settings")
    assert sent == [
        (Message("t", ("w:1", 5, "a"), {}), "paint.now"),
        (Message("t", ("w:2", 6), {}), "not.among.the.settings"),
    ]
    assert len(handed) == 2


@pytest.mark.parametrize(
    ("changed", "is_written"),
    [
        ({}, True),
        ({"QUEUES_URL": "redis://elsewhere"}, False),
        ({"REDIS_URL": "rediscluster://node:7000"}, False),
        ({"RETRY_LANES": {"paint.now": {"limit": 1, "workers": 1, "publisher": f"{__name__}.take"}}}, False),
        ({"RETRY_LANES": {}}, False),
    ],
    ids=["a queue in state", "another broker", "a Cluster", "a publisher", "an unknown lane"],
)
def test_a_claim_sends_its_message_itself_where_the_queue_is_in_the_same_server(
    work: Work, settings: Settings, changed: dict[str, object], is_written: bool
) -> None:
    for name, value in changed.items():
        setattr(settings, name, value)
    text = write_claim_message(work, work.lane)
    assert bool(text) == is_written
    assert not text or read_message(text) == Message(work.task, (work.key, 0, *work.arguments), {})
