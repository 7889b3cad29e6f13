"""The worker of lanes takes messages from Redis and calls their tasks."""

import signal
from collections.abc import Iterator
from dataclasses import replace

import pytest
from celery import current_app
from pytest_django import Settings

from retry import claims, lane_worker, lanes, stores, worker
from retry.lane_worker import LaneWorker
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import begun, queued_key

pytestmark = pytest.mark.usefixtures("servers")

done: list[tuple[object, ...]] = []


@pytest.fixture(autouse=True)
def tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    @current_app.task(name="noted")
    def note(*arguments: object) -> None:
        done.append((worker._message_lane(), *arguments))

    @current_app.task(name="other")
    def note_other(*arguments: object) -> None:
        done.append((worker._message_lane(), "other", *arguments))

    @current_app.task(name="failing")
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    done.clear()
    monkeypatch.setattr(lane_worker, "close_old_connections", lambda: None)
    yield
    for task in (note, note_other, fail):
        del current_app.tasks[task.name]


def work(*, in_turn: bool = True, messages: int, queues: tuple[str, ...] = ("paint.now", "paint.pages")) -> None:
    working = LaneWorker(queues, in_turn=in_turn, task_seconds=30)
    for _ in range(messages):
        found = working._take_message()
        assert found
        working.handle(found)


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


def paint(number: int, lane: str = "paint.now") -> Work:
    return Work(f"w:{number}", "w", lane, "paint.refresh", "noted", ("a", number))


def taken(*queues: str) -> lane_worker.TakenMessage:
    found = LaneWorker(queues or ("paint.now", "paint.pages"), in_turn=True, task_seconds=30)._take_message()
    assert found
    return found


def test_the_first_work_of_the_lane_is_started_with_its_message(servers: RedisServers) -> None:
    first, second = paint(1, "paint.pages"), paint(2, "paint.pages")
    for one in (first, second):
        begun(one)
    publish(2, "paint.pages")
    found = taken()
    assert found.started
    assert (found.lane, found.started.work_key) == ("paint.pages", first.key)
    LaneWorker(("paint.now",), in_turn=True, task_seconds=30).handle(found)
    assert done == [("paint.pages", "w:1", found.started.token, "a", 1)]
    assert servers.state.client.hget("retry:{0}:claim:w:1", "state") == b"running"
    assert servers.state.client.zrange(queued_key("paint.pages"), 0, -1) == [b"w:2"]


def test_work_whose_message_was_lost_is_started_when_no_other_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_worker, "BLOCKED_SECONDS", 0.05)
    begun(paint(1))
    found = taken()
    assert (found.text, found.started and found.started.work_key) == (None, "w:1")
    working = LaneWorker(("paint.now",), in_turn=True, task_seconds=30)
    assert working._take_message() is None


@pytest.mark.parametrize("queue", ["paint.now", "paint.pages"])
def test_a_message_of_another_task_is_handled_after_the_work_that_was_started_as_of_its_own_queue(queue: str) -> None:
    begun(paint(1))
    publish(9, queue, "other")
    stores.broker_client().lpush(queue, b"no message")
    work(messages=1)
    assert [call[:2] for call in done] == [("paint.now", "w:1"), (queue, "other")]
    assert done[1][2:] == ("w:9", 9, "a", 2.5)
    assert stores.broker_client().llen(queue) == 1


def test_a_message_of_another_task_is_handled_after_work_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    begun(replace(paint(1), task="failing"))
    publish(9, task="other")
    work(messages=1)
    assert [record.message for record in caplog.records if record.name == "tarry.preparing"] == ["a task failed"]
    assert done == [("paint.now", "other", "w:9", 9, "a", 2.5)]


def test_a_call_whose_reply_was_lost_finds_the_work_that_it_has_started(servers: RedisServers) -> None:
    for number in (1, 2):
        begun(paint(number))
    call = claims.start_first_call(["paint.pages", "paint.now"], "n")
    replies = [claims.read_started_in_lane(stores.execute_call(call), "n") for _ in range(2)]
    assert replies[0] == replies[1]
    assert replies[0]
    assert (replies[0][0], replies[0][1].work_key, replies[0][1].nonce) == ("paint.now", "w:1", "n")
    servers.state.client.delete("retry:{0}:claim:w:2")
    lost = claims.start_first_call(["paint.now"], "m")
    assert claims.read_started_in_lane(stores.execute_call(lost), "m") is None
    assert servers.state.client.zcard(queued_key("paint.now")) == 0


@pytest.mark.parametrize("elsewhere", ["a broker of its own", "partitions", "unfit"])
def test_work_is_started_by_its_message_where_one_script_cannot(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, elsewhere: str
) -> None:
    match elsewhere:
        case "a broker of its own":
            settings.QUEUES_URL = settings.REDIS_URL
        case "partitions":
            settings.STATE_PARTITIONS = 2
        case _:
            monkeypatch.setattr(worker, "is_fit", lambda: False)
    begun(paint(1))
    publish(1)
    assert taken().started is None
