"""The registry of machines: records by the clock of `state`, and what is wrong with a machine."""

import time

import pytest
import redis

from resources import machines
from resources.machines import WorkerCounts
from tests.conftest import RedisServers
from tests.support import clock
from tests.support.machines import note, note_skewed, process
from tests.support.stack import eventually


@pytest.fixture
def client(redis_servers: RedisServers) -> redis.Redis:
    return redis_servers.state.client


def test_machines_are_read_in_the_order_of_names_with_all_they_said(client: redis.Redis) -> None:
    note(client, "b", process("paint-now", "paint", "paint.now", workers=3), roles=["paint"], version="0.1.0 abc")
    note(client, "a", process("work", "work", "work", is_running=False), condition="draining", up_seconds=7)
    one, other = machines.read_machines(client)
    assert (one.name, one.condition, one.up_seconds, one.count_by_role(), one.queues) == (
        *("a", "draining", 7, {"work": (0, 1)}, []),
    )
    assert (other.name, other.roles, other.version, other.queues) == ("b", ("paint",), "0.1.0 abc", ["paint.now"])
    assert (other.disk_bytes, other.disk_free_bytes) == (100, 40)
    assert one.is_alive
    assert abs(one.skew_seconds) < 1 > one.heard_ago_seconds


def test_the_skew_is_that_of_the_machines_clock_to_that_of_state(
    client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now - 30)
    assert machines.note_machine(client, "slow", {}) == pytest.approx(-30, abs=1)
    [slow] = machines.read_machines(client)
    assert (slow.is_skewed, slow.is_alive) == (True, True)
    assert slow.heard_ago_seconds < 1
    assert list(machines.list_troubles([slow])) == [("slow", "its clock is 30.0 s behind")]


@pytest.mark.parametrize(
    ("ago_seconds", "condition", "is_alive", "is_overdue"),
    [(5, "running", True, False), (40, "running", False, True), (40, "stopped", False, False)],
    ids=["heard", "silent", "stopped"],
)
def test_a_silent_machine_is_overdue_unless_it_said_that_it_stops(
    client: redis.Redis, *, ago_seconds: float, condition: str, is_alive: bool, is_overdue: bool
) -> None:
    note(client, "a", ago_seconds=ago_seconds, condition=condition)
    [one] = machines.read_machines(client)
    assert (one.is_alive, one.is_overdue) == (is_alive, is_overdue)


def test_a_machine_without_a_word_for_a_day_is_forgotten(client: redis.Redis) -> None:
    note(client, "old", ago_seconds=machines.REMEMBERED_SECONDS + 60)
    note(client, "silent", ago_seconds=machines.REMEMBERED_SECONDS - 60)
    assert [one.name for one in machines.read_machines(client)] == ["silent"]
    assert client.hkeys(machines.KEY) == [b"silent"]


def test_a_record_that_another_version_wrote_hides_no_other(client: redis.Redis) -> None:
    note(client, "a", unheard_of={"x": 1})
    for name, text in (("b", "1"), ("c", "1 2 []"), ("d", '1 2 {"processes": [{}]}'), ("e", "\x7f")):
        client.hset(machines.KEY, name, text)
    assert [one.name for one in machines.read_machines(client)] == ["a"]


def test_the_workers_of_living_machines_are_counted_by_queue(client: redis.Redis) -> None:
    paint = process("paint-now", "paint", "paint.now", "paint.pages", workers=2)
    note(client, "a", paint, process("work", "work", "work"))
    note(client, "b", {**paint, "workers": 5})
    note(client, "gone", paint, ago_seconds=60)
    note(client, "stopped", paint, condition="stopped")
    note(client, "failing", {**paint, "is_running": False})
    assert machines.count_workers(machines.read_machines(client)) == {"paint.now": 7, "paint.pages": 7, "work": 1}


def test_counts_are_read_by_a_thread_now_and_then_and_are_unknown_without_state(
    client: redis.Redis, redis_servers: RedisServers
) -> None:
    note(client, "a", process("paint-now", "paint", "paint.now", workers=2))
    counts = WorkerCounts(lambda: client, kept_seconds=10)
    counts.count("paint.now", 100)
    eventually(lambda: counts.count("paint.now", 101) == 2, 10, "the thread has read them")
    note(client, "b", process("paint-now", "paint", "paint.now", workers=2))
    assert counts.count("paint.now", 109) == 2
    counts.count("paint.now", 110)
    eventually(lambda: counts.count("paint.now", 111) == 4, 10, "they are read again")
    redis_servers.state.stop()
    counts.count("paint.now", 120)
    eventually(lambda: counts.count("paint.now", 121) == 0, 10, "nothing is known")


def test_a_setting_that_differs_is_told_once_for_two_machines_and_not_of_one_that_is_gone(client: redis.Redis) -> None:
    note(client, "a", digests={"SECRET_KEY": ["1"], "PUBLIC_URL": ["5"]})
    note(client, "b", digests={"SECRET_KEY": ["2"], "STORAGE_URL": ["9"]})
    note(client, "gone", digests={"PUBLIC_URL": ["6"]}, ago_seconds=60)
    assert list(machines.list_troubles(machines.read_machines(client))) == [
        ("a", "has another SECRET_KEY than b"),
        ("gone", "not heard for 60 s"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (["new", "old"], ["old", "new"], True),
        (["new", "old"], ["new"], True),
        (["new", "old"], ["old"], False),
        (["new"], ["old", "new"], False),
    ],
    ids=["each takes the other's", "one key", "the other cannot read the new", "this one cannot read the old"],
)
def test_keys_that_are_being_rotated_agree_when_each_machine_takes_the_others(
    client: redis.Redis, one: list[str], other: list[str], *, agree: bool
) -> None:
    note(client, "b", digests={"SECRET_KEY": other})
    found = machines.list_differences("a", {"SECRET_KEY": one}, machines.read_machines(client))
    assert list(found) == ([] if agree else [("SECRET_KEY", "b")])


def test_digests_tell_values_apart_by_setting_and_hold_none_of_them() -> None:
    found = [machines.digest_setting("A", "x"), machines.digest_setting("A", "y"), machines.digest_setting("B", "x")]
    found += [machines.digest_secret("A", "x"), machines.digest_secret("A", "y")]
    assert len(set(found)) == 5
    assert {len(digest) for digest in found} == {16}
    assert machines.digest_secret("A", "x") == found[3]


def test_a_guess_at_a_weak_secret_takes_long() -> None:
    began = clock.seconds()
    machines.digest_secret("SECRET_KEY", "weak")
    assert clock.seconds() - began > 0.01


def test_a_skewed_machine_is_told_of_by_its_record_alone(client: redis.Redis) -> None:
    note_skewed(client, "a", 1.9)
    note_skewed(client, "b", 2.1)
    assert list(machines.list_troubles(machines.read_machines(client))) == [("b", "its clock is 2.1 s ahead")]
    assert abs(machines.read_clock(client) - time.time()) < 5
