"""A machine among others: settings compared at its start, its record, workers of lanes, health, figures, the page."""

import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import redis
from django.core.management import call_command
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings
from supervisor import events
from supervisor.states import ProcessStates

from project import checks, health, lane_workers, run
from project.environment import own_store_url, storage_from
from project.paths import DataDirectory, RuntimeDirectory
from project.preflight import StartError
from project.processes import ROLES, ProcessPlan, list_processes
from project.supervisor import MachineRecord, TarrySupervisor
from resources import machines
from resources.fetch.frontier import queue
from retry import claims, stores
from retry.conf import conf, partition_root
from retry.errors import StoreUnavailable
from tests.conftest import RedisServers
from tests.support import claim_calls
from tests.support.admin_pages import log_in_to_look, said, text_of
from tests.support.machines import note, note_skewed, process
from tests.support.redis_servers import RedisCluster
from tests.support.stack import eventually

PAINTER = process("paint-now", "paint", "paint.now", "paint.pages", workers=3)


FOLDER, BUCKET = storage_from("file:///srv/blobs"), storage_from("s3://key:secret@s3.example/bucket")


@pytest.fixture
def state(redis_servers: RedisServers) -> redis.Redis:
    return redis_servers.state.client


@pytest.fixture(autouse=True)
def _nothing_known_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_recent_health", health.RecentHealth())
    counts = machines.WorkerCounts(lambda: stores.fast_client("state"))
    monkeypatch.setattr(lane_workers, "_worker_counts", counts)


@pytest.mark.django_db
def test_a_start_beside_a_machine_with_another_setting_names_both_and_no_value(
    state: redis.Redis, settings: Settings
) -> None:
    note(state, "other", digests=checks.digest_settings())
    run._compare_settings()
    settings.SECRET_KEY, settings.PUBLIC_URL = "quite another", "https://elsewhere.example"
    with pytest.raises(StartError) as refused:
        run._compare_settings()
    text = str(refused.value)
    assert "SECRET_KEY is not the same here and on the machine other." in text
    assert "PUBLIC_URL is not the same here and on the machine other." in text
    assert text.count("(project.E006)") == 2
    assert not {"quite another", "elsewhere"} & set(text.replace("/", " ").replace(".", " ").split())


@pytest.mark.django_db
def test_a_number_that_differs_is_a_warning_as_it_may_be_changed_on_one_machine_after_the_other(
    state: redis.Redis, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    note(state, "other", digests=checks.digest_settings())
    settings.RETRY_LEASE_SECONDS = 99
    run._compare_settings()
    assert "Warning: RETRY_LEASE_SECONDS is not the same here and on the machine other." in capsys.readouterr().err


@pytest.mark.django_db
def test_two_databases_are_told_apart_and_one_by_two_names_is_not(settings: Settings) -> None:
    one = checks.digest_settings()["DATABASE_URL"]
    assert checks.digest_settings()["DATABASE_URL"] == one
    first = MigrationRecorder.Migration.objects.earliest("applied")
    MigrationRecorder.Migration.objects.filter(pk=first.pk).update(applied="2020-01-01T00:00:00Z")
    assert checks.digest_settings()["DATABASE_URL"] != one


def test_a_name_that_another_installation_has_is_refused_until_that_falls_silent(
    state: redis.Redis, settings: Settings
) -> None:
    settings.MACHINE, settings.INSTALLATION = "a", "mine"
    for installation, ago_seconds, ids in (("theirs", 0, ["project.E007"]), ("theirs", 40, []), ("mine", 0, [])):
        note(state, "a", installation=installation, ago_seconds=ago_seconds)
        assert [one.id for one in checks.compare_machines({})] == ids


def test_of_two_installations_that_start_at_once_with_one_name_one_waits_until_the_other_is_heard_or_gone(
    state: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = list[float]()

    def go_on(seconds: float) -> None:
        paused.append(seconds)
        if len(paused) == 3:
            state.delete("{machine:a}:start")

    monkeypatch.setattr("time.sleep", go_on)
    settings.MACHINE = "a"
    for settings.INSTALLATION in ("one", "one", "two"):
        checks.await_start()
    assert len(paused) == 3
    assert state.get("{machine:a}:start") == b"two"
    assert 10 < state.ttl("{machine:a}:start") <= checks.STARTING_SECONDS


def test_a_copy_of_an_installation_is_another_and_the_same_after_a_start_of_its_host_waits_for_its_earlier_record(
    state: redis.Redis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = list[float]()

    def fall_silent(seconds: float) -> None:
        paused.append(seconds)
        note(state, "a", installation="id.boot1", ago_seconds=40)

    monkeypatch.setattr("time.sleep", fall_silent)
    settings.MACHINE, settings.INSTALLATION = "a", "id.boot2"
    note(state, "a", installation="id.boot1")
    assert [one.id for one in checks.compare_machines({})] == ["project.E007"]
    checks.await_earlier_start()
    assert (paused, checks.compare_machines({})) == ([1], [])
    note(state, "a", installation="another.boot1")
    checks.await_earlier_start()
    assert paused == [1]


@pytest.mark.usefixtures("redis_servers")
@pytest.mark.parametrize(
    ("other", "storage", "ids"), [("b", FOLDER, ["project.W001"]), ("a", FOLDER, []), ("b", BUCKET, [])]
)
def test_whole_machines_with_files_of_their_own_are_warned_of_each_other(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, other: str, storage: dict[str, Any], ids: list[str]
) -> None:
    state = stores.fast_client("state")
    settings.MACHINE, settings.INSTALLATION, settings.ROLES = "a", "mine", list(ROLES)
    settings.STORAGES, settings.CACHE_LISTEN = {**settings.STORAGES, "default": storage}, "127.0.0.1:6380"
    monkeypatch.setattr(checks, "_lone_database", lambda: iter(()))
    note(state, other, installation="mine", roles=["main"])
    assert [one.id for one in checks.compare_machines({})] == ids
    note(state, other, installation="mine", roles=["state"])
    assert checks.compare_machines({}) == []


@pytest.mark.usefixtures("redis_servers")
@pytest.mark.parametrize(
    ("url", "listen", "ids"),
    [("", "", ["project.E002"]), ("", "10.0.0.4:6380", []), ("redis://10.0.0.4:6380/0", "", [])],
    ids=["of its own", "that listens", "elsewhere"],
)
def test_a_machine_beside_others_has_their_cache(settings: Settings, url: str, listen: str, ids: list[str]) -> None:
    settings.MACHINE, settings.INSTALLATION, settings.ROLES = "a", "mine", ["main", "state", "cache"]
    settings.CACHE_URL = url or own_store_url(RuntimeDirectory(settings.RUNTIME_DIR).socket("cache"), "")
    settings.CACHE_PASSWORD, settings.CACHE_LISTEN = "", listen
    note(stores.fast_client("state"), "b", installation="other", roles=["main"])
    assert [one.id for one in checks.compare_settings({})] == ids


@pytest.mark.django_db
def test_nothing_is_compared_without_state_and_no_secret_is_in_the_record(
    redis_servers: RedisServers, settings: Settings, tmp_path: Path
) -> None:
    settings.SECRET_KEY, settings.REDIS_URL = "the-secret-key", "redis://:the-password@127.0.0.1:1/0"
    digests = run._compare_settings()
    plan = ProcessPlan(*("python", "redis-server", "nginx"), DataDirectory(tmp_path), RuntimeDirectory(tmp_path))
    run._write_machine(plan, digests)
    assert plan.runtime.machine.stat().st_mode & 0o077 == 0
    given = json.loads(plan.runtime.machine.read_text())
    assert "the-secret-key" not in json.dumps(given)
    assert "the-password" not in json.dumps(given["facts"])
    assert {one["name"] for one in given["facts"]["processes"]} == {one.name for one in list_processes(plan)}
    assert given["facts"]["version"].startswith("0.1.0")
    redis_servers.state.stop()
    assert run._compare_settings() == digests


@pytest.fixture
def record(redis_servers: RedisServers, tmp_path: Path) -> MachineRecord:
    file = tmp_path / "machine.json"
    facts = {"roles": ["paint"], "processes": [{**PAINTER, "is_running": False}]}
    state = f"unix://{redis_servers.state.socket}"
    file.write_text(json.dumps({"machine": "a", "data": str(tmp_path), "state": state, "facts": facts}))
    return MachineRecord(file, tmp_path / "draining")


def supervising(record: MachineRecord, running: bool = True) -> tuple[TarrySupervisor, Mock]:
    """A supervisord with one process, and its log's warnings."""
    one = TarrySupervisor(Path("hot"), None, record, options := Mock())
    painter = Mock(**{"get_state.return_value": ProcessStates.RUNNING if running else ProcessStates.BACKOFF})
    one.process_groups = {"site": Mock(processes={"paint-now": painter})}
    return one, options.logger.warn


def test_supervisord_tells_of_its_machine_and_of_its_end(
    state: redis.Redis, record: MachineRecord, tmp_path: Path
) -> None:
    one, warn = supervising(record)
    one.renew_record(record, events.Tick5Event(0, None))
    [told] = machines.read_machines(state)
    assert (told.name, told.condition, told.count_by_role()) == ("a", "running", {"paint": (1, 1)})
    assert 0 < told.disk_free_bytes <= told.disk_bytes
    (tmp_path / "draining").touch()
    one.renew_record(record, events.Tick5Event(0, None))  # it is recent
    assert machines.read_machines(state)[0].condition == "running"
    one._next_record = 0
    one.renew_record(record, events.Tick5Event(0, None))
    assert machines.read_machines(state)[0].condition == "draining"
    one.stopping = True
    one.renew_record(record, events.SupervisorStoppingEvent())
    assert machines.read_machines(state)[0].condition == "stopped"
    warn.assert_not_called()


def test_a_process_that_does_not_run_is_told_of(state: redis.Redis, record: MachineRecord) -> None:
    one, _ = supervising(record, running=False)
    one.renew_record(record, events.Tick5Event(0, None))
    assert machines.read_machines(state)[0].count_by_role() == {"paint": (0, 1)}


def test_supervisord_warns_once_of_an_outage_of_state_and_of_a_wrong_clock(
    redis_servers: RedisServers, record: MachineRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, warn = supervising(record)
    redis_servers.state.stop()
    for _ in range(2):
        one._next_record = 0
        one.renew_record(record, events.Tick5Event(0, None))
    redis_servers.state.start()
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 30)
    for _ in range(2):
        one._next_record = 0
        one.renew_record(record, events.Tick5Event(0, None))
    outage, skew = (call.args[0] for call in warn.mock_calls)
    assert "record cannot be renewed" in outage
    assert "its clock is 30" in skew
    assert "ahead" in skew


def test_estimates_of_waiting_count_the_workers_of_all_machines_and_without_state_those_of_this_one(
    redis_servers: RedisServers, state: redis.Redis
) -> None:
    own = conf().RETRY_LANES["paint.now"]["workers"]
    for name in ("a", "b"):
        note(state, name, PAINTER)
    eventually(lambda: conf().lane_workers("paint.now") == 6, 10, "both are counted")
    assert json.loads(claims.start_terms())["workers"]["paint.now"] == 6
    assert conf().lane_workers("fetch.fast") == conf().RETRY_LANES["fetch.fast"]["workers"]
    redis_servers.state.stop()
    lane_workers._worker_counts._next_at = 0
    conf().lane_workers("paint.now")
    eventually(lambda: conf().lane_workers("paint.now") == own, 10, "only this one is known")


def trouble_of(client: Client, part: str) -> Any:
    monitor = client.get("/healthz", REMOTE_ADDR="127.0.0.1").json()
    return monitor["parts"][part].get("error", ""), monitor


@pytest.mark.django_db(transaction=True)
def test_health_tells_of_machines_and_the_public_not_their_names(
    state: redis.Redis, client: Client, settings: Settings
) -> None:
    settings.MACHINE = "a"
    note(state, "a")
    note(state, "lost", ago_seconds=50)
    error, told = trouble_of(client, "machines")
    assert error == "trouble with 1 of 2 machines: the admin's page Machines names them"
    assert (told["machine"], told["machines"]["a"]["troubles"]) == ("a", [])
    assert told["machines"]["lost"]["troubles"] == ["not heard for 50 s"]
    public = client.get("/healthz", REMOTE_ADDR="192.0.2.1")
    assert public.status_code == 503
    assert b"lost" not in public.content
    assert "machine" not in public.json()


@pytest.mark.django_db(transaction=True)
def test_readiness_does_not_depend_on_other_machines(state: redis.Redis, client: Client) -> None:
    note(state, "lost", ago_seconds=50)
    assert client.get("/healthz/ready").status_code == 200


@pytest.mark.parametrize(("skew", "error"), [(1.5, ""), (30, "this clock is 30"), (-30, "this clock is 30")])
@pytest.mark.django_db(transaction=True)
def test_health_tells_of_a_clock_that_is_not_that_of_state(
    state: redis.Redis, client: Client, monkeypatch: pytest.MonkeyPatch, skew: float, error: str
) -> None:
    monkeypatch.setattr(machines, "read_clock", lambda _: time.time() - skew)
    found, _ = trouble_of(client, "clocks")
    assert found.startswith(error) if error else not found
    assert not error or ("ahead" if skew > 0 else "behind") in found


@pytest.mark.parametrize("skew", [0.5, 20])
@pytest.mark.django_db(transaction=True)
def test_health_tells_of_a_clock_that_is_not_that_of_the_database(
    state: redis.Redis, client: Client, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    monkeypatch.setattr(health, "_read_database_clock", lambda: time.time() - skew)
    found, _ = trouble_of(client, "clocks")
    assert ("ahead of that of the database" in found) is (skew > 2)


def figures_of(client: Client) -> dict[str, dict[tuple[str, ...], float]]:
    """The figures of `/metrics` by name and by their labels' values."""
    text = client.get("/metrics", REMOTE_ADDR="127.0.0.1").content.decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in samples:
        found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


@pytest.mark.django_db(transaction=True)
def test_metrics_tell_of_machines_lanes_parts_and_of_the_memory_of_state(state: redis.Redis, client: Client) -> None:
    note(state, "a", PAINTER, digests={"PUBLIC_URL": ["1"]}, up_seconds=60, version="0.1.0 x", roles=["paint"])
    note_skewed(state, "b", -3, digests={"PUBLIC_URL": ["2"]})
    note(state, "lost", ago_seconds=50)
    state.zadd(claim_calls.queued_key("paint.now"), {"one": 1, "two": 2})
    eventually(lambda: conf().lane_workers("paint.now") == 3, 10, "the workers are counted")
    found = figures_of(client)
    assert found["tarry_machine_up"] == {("a",): 1, ("b",): 1, ("lost",): 0}
    assert found["tarry_machine_overdue"] == {("a",): 0, ("b",): 0, ("lost",): 1}
    assert 50 <= found["tarry_machine_heard_seconds"]["lost",] < 60
    assert found["tarry_machine_clock_skew_seconds"]["b",] == -3
    assert found["tarry_machine_processes"] == {("a", "paint", "running"): 1, ("a", "paint", "wanted"): 1}
    assert (found["tarry_machine_disk_bytes"]["a",], found["tarry_machine_disk_free_bytes"]["a",]) == (100, 40)
    assert found["tarry_machine_info"]["a", "paint", "0.1.0 x"] == 1
    assert abs(found["tarry_machine_start_time_seconds"]["a",] - time.time() + 60) < 10
    assert set(found["tarry_machine_setting_differs"]) == {("a", "b", "PUBLIC_URL"), ("b", "a", "PUBLIC_URL")}
    assert (found["tarry_lane_waiting"]["paint.now",], found["tarry_lane_workers"]["paint.now",]) == (2, 3)
    assert found["tarry_lane_limit"]["paint.now",] == conf().RETRY_LANES["paint.now"]["limit"]
    assert found["tarry_part_up"]["state",] == 1
    assert found["tarry_part_up"]["machines",] == 0
    assert 0 < found["tarry_state_memory_bytes"]["",] < found["tarry_state_memory_max_bytes"]["",]


@pytest.mark.django_db(transaction=True)
def test_the_expected_wait_of_a_lane_follows_its_work_and_all_workers(state: redis.Redis, client: Client) -> None:
    note(state, "a", PAINTER)
    eventually(lambda: conf().lane_workers("paint.now") == 3, 10, "the workers are counted")
    state.zadd(claim_calls.queued_key("paint.now"), {str(number): number for number in range(6)})
    state.set(f"{partition_root('retry', 0)}:duration:paint.now", 500)
    assert figures_of(client)["tarry_lane_wait_seconds"] == {("paint.now",): pytest.approx(1)}


@pytest.mark.django_db(transaction=True)
def test_metrics_without_state_tell_of_the_parts(redis_servers: RedisServers, client: Client) -> None:
    redis_servers.state.stop()
    found = figures_of(client)
    assert found["tarry_part_up"]["state",] == 0
    assert "tarry_machine_up" not in found


@pytest.mark.django_db(transaction=True)
def test_the_registry_is_the_same_on_a_cluster_which_has_a_figure_for_each_node(
    redis_servers: RedisServers, client: Client, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = RedisCluster(tmp_path_factory.mktemp("c"))
    try:
        settings.REDIS_URL, settings.QUEUES_URL = cluster.url, f"unix://{redis_servers.state.socket}"
        settings.STATE_PARTITIONS = 16
        stores.BREAKERS.clear()
        file = tmp_path_factory.mktemp("m") / "machine.json"
        given = {"machine": "a", "data": "/", "state": cluster.url, "facts": {"processes": [PAINTER]}}
        file.write_text(json.dumps(given))
        record = MachineRecord(file, file.with_name("draining"))
        assert abs(record.renew({"paint-now"})) < 1
        found = figures_of(client)
        assert found["tarry_machine_up"] == {("a",): 1}
        assert len(found["tarry_state_memory_bytes"]) == 3
        assert found["tarry_lane_waiting"]["paint.now",] == 0
        assert machines.forget_machine(stores.fast_client("state"), "a") is False
    finally:
        cluster.stop()
        stores.BREAKERS.clear()


PAGE = "/admin/resources/machine/"
PARTS = 64
"""Of the domains."""


@pytest.mark.django_db
def test_the_page_shows_all_machines_and_what_is_wrong_with_them(
    state: redis.Redis, admin_client: Client, settings: Settings
) -> None:
    settings.MACHINE = "berlin"
    note(state, "berlin", PAINTER, roles=["front", "main"], version="0.1.0 abc", up_seconds=7200)
    note(state, "hamburg", {**PAINTER, "is_running": False}, process("work", "work", "work"))
    note(state, "lost", ago_seconds=60)
    note(state, "stopped", PAINTER, ago_seconds=90, condition="stopped")
    note_skewed(state, "wrong", 12.5)
    for fetcher in ("berlin:1", "hamburg:1", "hamburg:2"):
        stores.run_steps(queue.sign_in_fetcher(fetcher))
    parts = stores.run_steps(queue.read_owned_parts())
    text = text_of(admin_client.get(PAGE))
    for shown in (
        *("front, main", ">paint 1<", "paint.now, paint.pages", "40 bytes (40%)", "0.1.0 abc, 2 h", "answers you"),
        *(
            "not running: paint-now",
            "paint 0 of 1, work 1<",
            "not heard for 6",
            "+12.5 s",
            "s ago, stopped",
        ),
        *(f"<td>{parts['berlin:1'] / PARTS:.0%}</td>", f"<td>{1 - parts['berlin:1'] / PARTS:.0%}</td>"),
        *("its clock is 12.5 s ahead", "3 of 5 heard. Trouble: hamburg, lost, wrong."),
    ):
        assert shown in text
    assert text.count('<tr class="is-refused">') == 3
    assert text.count("<td>none</td>") == 3


@pytest.mark.django_db
def test_the_page_is_for_staff_who_may_view_machines_and_says_when_redis_is_away(
    redis_servers: RedisServers, client: Client, admin_client: Client
) -> None:
    assert client.get(PAGE).status_code == 302
    log_in_to_look(client, "layer")
    assert client.get(PAGE).status_code == 403
    client.logout()
    redis_servers.state.stop()
    assert "Redis does not answer." in text_of(admin_client.get(PAGE))


@pytest.mark.django_db
def test_the_page_says_that_redis_is_away_when_it_takes_no_script(
    state: redis.Redis, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(state, "berlin", PAINTER)
    monkeypatch.setattr(stores, "run_steps", Mock(side_effect=StoreUnavailable("state")))
    assert "Redis does not answer." in text_of(admin_client.get(PAGE))


@pytest.mark.django_db
def test_a_user_who_may_only_view_machines_sees_the_page_and_changes_nothing(
    state: redis.Redis, client: Client
) -> None:
    log_in_to_look(client, "machine")
    assert "0 of 0 heard." in text_of(client.get(PAGE))
    assert PAGE in text_of(client.get("/admin/"))
    assert client.get(f"{PAGE}add/").status_code == 403


@pytest.mark.django_db
def test_a_machine_that_is_gone_for_good_is_forgotten_by_hand_and_no_other(
    redis_servers: RedisServers, state: redis.Redis, client: Client, admin_client: Client
) -> None:
    note(state, "here/1")
    note(state, "gone/1", ago_seconds=60)
    forget = f"{PAGE}forget/gone/1/"
    assert f'action="{forget}"' in text_of(admin_client.get(PAGE))
    assert "forget/here" not in text_of(admin_client.get(PAGE))
    assert admin_client.get(forget).status_code == 405
    log_in_to_look(client, "machine")
    assert client.post(forget).status_code == 403
    assert "Forget<" not in text_of(client.get(PAGE))
    assert said(admin_client.post(f"{PAGE}forget/here/1/", follow=True)) == [
        "here/1 is heard, or not known: nothing was changed."
    ]
    assert said(admin_client.post(forget, follow=True)) == ["Forgotten: gone/1."]
    assert state.hkeys(machines.KEY) == [b"here/1"]
    redis_servers.state.stop()
    assert said(admin_client.post(forget, follow=True)) == ["Nothing was changed: Redis does not answer."]


@pytest.mark.django_db
def test_machines_need_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("dumpdata", "resources.machine")
    assert capsys.readouterr().out.strip() == "[]"


FULL = "its data take 90 bytes: DISK_MAX_BYTES leaves no room for new files"


@pytest.mark.django_db(transaction=True)
def test_a_disk_without_room_is_told_by_health_metrics_and_the_page(
    state: redis.Redis, client: Client, admin_client: Client
) -> None:
    bound: dict[str, Any] = {"disk_max_bytes": 100, "disk_parts": {"database": 90, "hot": 2}}
    note(state, "full", **bound, disk_trouble=FULL)
    note(state, "other", **bound, disk_trouble="")
    note(state, "unbounded")
    error, told = trouble_of(client, "machines")
    assert error.startswith("trouble with 1 of 3 machines")
    assert told["machines"]["full"]["troubles"] == [FULL]
    found = figures_of(client)
    assert found["tarry_machine_disk_trouble"] == {("full",): 1, ("other",): 0, ("unbounded",): 0}
    assert found["tarry_machine_disk_max_bytes"] == {("full",): 100, ("other",): 100}
    assert found["tarry_machine_disk_part_bytes"]["full", "database"] == 90
    assert set(found["tarry_machine_disk_part_bytes"]) == {
        (name, part) for name in ("full", "other") for part in ("database", "hot")
    }
    text = text_of(admin_client.get(PAGE))
    assert text.count("the site takes 92 bytes of 100 bytes") == 2
    assert text.count(FULL) == 1
