"""The worker of lanes takes messages from Redis and calls their tasks."""

import signal
from collections.abc import Iterator

import pytest
from celery import current_app
from pytest_django import Settings

from retry import lane_worker, lanes, stores, worker
from retry.lane_worker import LaneWorker
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("servers")

done: list[tuple[object, ...]] = []


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    @current_app.task(name="noted")
    def note(*arguments: object) -> None:
        done.append((worker._message_lane(), *arguments))

    @current_app.task(name="failing")
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    done.clear()
    monkeypatch.setattr(lane_worker, "close_old_connections", lambda: None)
    yield
    for task in (note, fail):
        del current_app.tasks[task.name]


def work(*, in_turn: bool = True, messages: int, queues: tuple[str, ...] = ("paint.now", "paint.pages")) -> None:
    working = LaneWorker(queues, in_turn=in_turn, task_seconds=30)
    for _ in range(messages):
        found = working._take_message()
        assert found
        working.handle(*found)


def publish(number: int, lane: str = "paint.now", task: str = "noted") -> None:
    lanes.publish_work(task, f"w:{number}", number, ("a", 2.5), lane)


def test_a_task_is_called_with_its_arguments_and_knows_the_lane_of_its_message() -> None:
    publish(1)
    work(messages=1)
    assert done == [("paint.now", "w:1", 1, "a", 2.5)]
    assert worker._message_lane() == ""


def test_lanes_are_served_in_turn_or_the_first_one_first() -> None:
    for in_turn in (True, False):
        for number in range(4):
            publish(number, "paint.now" if number < 2 else "paint.pages")
        work(messages=4, in_turn=in_turn)
    assert [call[2] for call in done] == [0, 2, 1, 3, 0, 1, 2, 3]


def test_a_message_of_a_celery_process_is_handled() -> None:
    current_app.send_task("noted", args=("w:1", 1), queue="paint.now", ignore_result=True)
    work(messages=1)
    assert done == [("paint.now", "w:1", 1)]


def test_what_cannot_be_done_is_logged_and_the_worker_goes_on(
    servers: RedisServers, caplog: pytest.LogCaptureFixture
) -> None:
    publish(1, task="failing")
    publish(2, task="unknown")
    servers.state.client.lpush("paint.now", b"no message")
    publish(3)
    work(messages=4)
    said = [record.message for record in caplog.records if record.name == "tarry.preparing"]
    assert said == ["a task failed", "no such task", "a message was lost"]
    assert len(done) == 1


def test_an_outage_of_the_broker_is_logged_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lane_worker, "AWAY_SECONDS", 0)
    settings.QUEUES_URL = "unix:///nowhere"
    working = LaneWorker(("paint.now",), in_turn=True, task_seconds=30)
    assert [working._take_message() for _ in range(2)] == [None, None]
    assert [record.message for record in caplog.records] == ["the broker is away"]


def test_a_worker_ends_after_the_task_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    working = LaneWorker(("paint.now",), in_turn=True, task_seconds=30)
    monkeypatch.setattr(working, "handle", lambda *_: setattr(working, "ending", True))
    publish(1)
    publish(2)
    working.run()
    assert stores.broker_client().llen("paint.now") == 1


def test_a_task_that_takes_too_long_ends_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(signal, "alarm", told.append)
    publish(1)
    work(messages=1)
    assert told == [30, 0]
