"""Locks of one process at a time: a holder keeps others out, and a dead holder does so for a while only."""

from contextlib import ExitStack

import pytest

from resources import locks
from retry.errors import StoreUnavailable
from tests.conftest import RedisServers

NAME = "tests:lock"


def test_the_second_process_does_not_get_a_lock_that_is_held(redis_servers: RedisServers) -> None:
    with locks.hold_lock(NAME, 15), locks.hold_lock(NAME, 15) as second:
        assert second is None
        assert locks.run_alone(NAME, 15, lambda: 7) == 0
    assert locks.run_alone(NAME, 15, lambda: 7) == 7


def test_a_lapsed_lock_is_neither_renewed_nor_released_by_its_old_holder(redis_servers: RedisServers) -> None:
    client = redis_servers.state.client
    with ExitStack() as second_holder:
        with locks.hold_lock(NAME, 15) as first:
            assert first is not None
            client.delete(NAME)
            second_holder.enter_context(locks.hold_lock(NAME, 5))
            locks.renew_lock(first)
            assert client.pttl(NAME) <= 5_000
        assert client.exists(NAME)


def test_the_lock_of_a_dead_process_lapses_and_a_renewed_one_later(redis_servers: RedisServers) -> None:
    client = redis_servers.state.client
    with locks.hold_lock(NAME, 15) as lock:
        assert lock is not None
        assert 14_000 < client.pttl(NAME) <= 15_000
        client.pexpire(NAME, 1_000)
        locks.renew_lock(lock)
        assert 14_000 < client.pttl(NAME) <= 15_000


def test_an_error_of_the_work_releases_the_lock(redis_servers: RedisServers) -> None:
    with pytest.raises(ZeroDivisionError):
        locks.run_alone(NAME, 15, lambda: 1 // 0)
    assert redis_servers.state.client.get(NAME) is None


def test_a_lock_is_not_to_be_had_without_its_server(redis_servers: RedisServers, impatient: None) -> None:
    redis_servers.state.stop()
    with pytest.raises(StoreUnavailable):
        locks.run_alone(NAME, 15, lambda: 7)


def test_a_machine_keeps_its_name_until_it_has_been_away_for_long(redis_servers: RedisServers) -> None:
    assert [locks.hold_machine_name("a", one) for one in ("first", "second", "first")] == [True, False, True]
    assert 25 < redis_servers.state.client.ttl("machine:a") <= locks.MACHINE_SECONDS
    redis_servers.state.client.delete("machine:a")
    assert [locks.hold_machine_name("a", one) for one in ("second", "first")] == [True, False]


def test_an_earlier_version_held_the_name_by_the_installations_id_alone(redis_servers: RedisServers) -> None:
    assert [locks.hold_machine_name("a", one) for one in ("id", "other.boot", "id.boot", "id")] == [
        True,
        False,
        True,
        False,
    ]
