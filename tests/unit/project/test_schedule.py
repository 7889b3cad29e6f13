"""Beat's schedule: existing tasks, for a queue with workers, and none of them piles up."""

import time
from datetime import timedelta
from unittest.mock import Mock

import pytest
from celery import signals
from celery.beat import Scheduler as CelerysScheduler
from django.conf import settings
from pytest_django import Settings

from project import beat as project_beat
from project import celery, schedule
from project.beat import Scheduler
from project.celery import app
from project.paths import DataDirectory
from resources import tasks
from tests.conftest import RedisServers

ENTRIES = [*schedule.ALWAYS, *schedule.OWN, schedule.DEMO, schedule.PRUNING, schedule.TRAFFIC, schedule.READERS]


def test_each_entry_has_a_name_and_a_task_of_its_own_which_exists() -> None:
    app.loader.import_default_modules()
    names, tasks = {name for name, _, _ in ENTRIES}, {task for _, task, _ in ENTRIES}
    assert len(names) == len(tasks) == len(ENTRIES)
    assert tasks <= set(app.tasks)


def test_limits_headers_timings_and_rules_of_urls_have_their_times() -> None:
    of_fetching = {tasks.apply_fetch_limits.name, tasks.prune_fetch_timings.name, tasks.reseal_fetch_headers.name}
    of_mirroring = {tasks.learn_url_rules.name, tasks.rekey_urls.name}
    assert of_fetching | of_mirroring <= {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}


def test_old_rows_are_removed_each_day_first_when_the_site_starts() -> None:
    entry = settings.CELERY_BEAT_SCHEDULE["prune"]
    assert (entry["task"], entry["schedule"]) == (tasks.prune.name, 86_400)
    beat = Scheduler(app, lazy=True)
    beat.update_from_dict({"prune": entry})
    assert beat.schedule["prune"].is_due()[0]
    assert not next(beat.schedule["prune"]).is_due()[0]


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the entries whose tasks beats have published."""
    found: list[str] = []
    monkeypatch.setattr(CelerysScheduler, "apply_entry", lambda _, entry, producer=None: found.append(entry.name))
    return found


def make_beat(*entries: schedule.BeatEntry, own: tuple[schedule.BeatEntry, ...] = ()) -> Scheduler:
    beat = Scheduler(app, lazy=True)
    of_machine = schedule.beat_schedule(*own, queue=schedule.machine_queue("here"))
    beat.update_from_dict(of_machine | schedule.beat_schedule(*entries))
    return beat


def apply_all(beat: Scheduler) -> None:
    for entry in beat.schedule.values():
        beat.apply_entry(entry)


def test_a_task_waits_once_at_most_until_a_worker_begins_it(
    redis_servers: RedisServers, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = make_beat(("often", "a", 2), ("seldom", "b", 300))
    redis_servers.state.client.lpush(schedule.BEAT_QUEUE, "another message")
    for _ in range(2):
        apply_all(beat)
    assert published == ["often", "seldom"]
    assert 590 < redis_servers.state.client.ttl("beat:waiting:work:a") <= 600
    monkeypatch.setattr(celery, "_scheduled_tasks", lambda: {"a": "work"})
    signals.task_prerun.send(sender=None, task=Mock())
    task = Mock()
    task.name = "a"
    signals.task_prerun.send(sender=task, task=task)
    apply_all(beat)
    assert published == ["often", "seldom", "often"]


def test_what_a_killed_worker_had_taken_is_published_when_its_successor_starts(
    redis_servers: RedisServers, published: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = make_beat(("often", "a", 2))
    redis_servers.state.client.lpush(schedule.BEAT_QUEUE, "another message")
    monkeypatch.setattr(celery, "_scheduled_tasks", lambda: {"a": "work", "b": "elsewhere"})
    redis_servers.state.client.set("beat:waiting:elsewhere:b", 1)
    apply_all(beat)
    with monkeypatch.context() as worker:
        worker.setattr(type(app.amqp.queues), "consume_from", {"work": None})
        signals.worker_ready.send(sender=None)
    apply_all(beat)
    assert published == ["often", "often"]
    assert redis_servers.state.client.exists("beat:waiting:elsewhere:b")


def test_one_beat_is_active_for_the_site_and_each_for_its_own_machine(
    redis_servers: RedisServers, published: list[str], settings: Settings
) -> None:
    beat = make_beat(("sweep", "a", 2), own=(("traffic", "b", 2),))

    def apply_on(installation: str) -> list[str]:
        settings.INSTALLATION = installation
        published.clear()
        for key in redis_servers.state.client.scan_iter("beat:waiting:*"):
            redis_servers.state.client.delete(key)
        apply_all(beat)
        return list(published)

    assert [apply_on(one) for one in ("A", "B", "A")] == [["traffic", "sweep"], ["traffic"], ["traffic", "sweep"]]
    assert redis_servers.state.client.ttl("beat:active") <= 10
    redis_servers.state.client.delete("beat:active")  # as if A were gone for so long
    assert [apply_on(one) for one in ("B", "A")] == [["traffic", "sweep"], ["traffic"]]


def test_a_new_site_scans_its_feeds_at_once_and_one_that_starts_again_when_it_is_time() -> None:
    beat = Scheduler(app, lazy=True)
    entries = schedule.beat_schedule((schedule.SCAN, schedule.SCAN_TASK, 60), schedule.PRUNING)
    beat.update_from_dict(entries)
    scan, pruning = (beat.schedule[name] for name in (schedule.SCAN, schedule.PRUNING[0]))
    assert (scan.is_due()[0], pruning.is_due()[0]) == (True, False)
    beat.schedule[schedule.SCAN] = next(scan)
    beat.merge_inplace(entries)  # type: ignore[arg-type]  # as at every start
    assert not beat.schedule[schedule.SCAN].is_due()[0]


def test_a_task_that_no_worker_takes_waits_once_and_a_lost_one_is_published_again(redis_servers: RedisServers) -> None:
    beat = make_beat(("often", "a", 0.0001), ("as often", "b", 0.0001))
    for _ in range(20):
        for entry in beat.schedule.values():
            beat.apply_entry(entry, beat.producer)
    assert redis_servers.state.client.llen(schedule.BEAT_QUEUE) == 2
    redis_servers.state.client.delete(schedule.BEAT_QUEUE)  # a worker was killed with them
    for entry in beat.schedule.values():
        beat.apply_entry(entry, beat.producer)
    assert redis_servers.state.client.llen(schedule.BEAT_QUEUE) >= 1


def test_a_clock_that_is_set_back_keeps_nothing_from_being_published(monkeypatch: pytest.MonkeyPatch) -> None:
    beat = Scheduler(app, lazy=True)
    beat.update_from_dict(schedule.beat_schedule(("often", "a", 0.01), ("as often", "b", 0.01)))
    published: list[str] = []
    monkeypatch.setitem(beat.__dict__, "producer", None)  # which would connect
    monkeypatch.setattr(beat, "apply_entry", lambda entry, producer: published.append(entry.name))
    forget = Mock()
    monkeypatch.setattr(project_beat, "forget_hot_answers", forget)
    for entry in beat.schedule.values():  # published an hour ahead of the clock as it is now
        entry.last_run_at = entry.default_now() + timedelta(hours=1)
    for _ in range(100):
        time.sleep(min(max(beat.tick(), 0), 0.01))
    assert {*published} == {"often", "as often"}
    forget.assert_called_once_with(DataDirectory(settings.DATA_DIR).hot, settings.NGINX_PID_FILE)


def test_beat_goes_on_where_nginx_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = PermissionError(1, "Operation not permitted")
    monkeypatch.setattr(project_beat, "forget_hot_answers", Mock(side_effect=refused))
    beat = Scheduler(app, lazy=True)
    beat.update_from_dict(schedule.beat_schedule(("seldom", "a", 3600)))
    [entry] = beat.schedule.values()
    entry.last_run_at = entry.default_now() + timedelta(hours=1)
    assert beat.tick() > 0
    assert entry.last_run_at <= entry.default_now()
