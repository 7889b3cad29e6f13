"""Admins' limits: in the database for good, in force in Redis at once."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from resources import tasks
from resources.fetch import host_settings
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob, DomainLimits, LimitsInForce
from resources.fetch.http.limit_scopes import scope_via
from resources.fetch.models import FetchDomain
from retry import stores
from retry.errors import StoreUnavailable
from tests.conftest import RedisServers
from tests.support.frontier import HOST, backlog, claim, claimed, enqueue, job, record, report
from tests.support.frontier_clock import Clock

pytestmark = pytest.mark.django_db


def in_force(scope: str = HOST) -> LimitsInForce:
    return stores.run_steps(queue.read_limits_in_force([scope]))[0]


def restored() -> list[str]:
    return host_settings.restore_limits(datetime.now(UTC))


def test_saved_limits_hold_from_the_next_claim_on(clock: Clock) -> None:
    backlog()
    host_settings.save_domain(FetchDomain(scope=HOST, delay_seconds=7.5, in_flight=1, bytes_per_second=0))
    report(claimed())
    clock.pass_by(5)
    assert not isinstance(claim(), ClaimedJob)
    clock.pass_by(5)
    claimed()
    assert in_force() == LimitsInForce(DomainLimits(7.5, 1, 0), "")


def test_a_pause_holds_at_once_and_leaves_the_other_limits(clock: Clock) -> None:
    backlog()
    host_settings.save_domain(FetchDomain(scope=HOST, delay_seconds=7.5))
    host_settings.change_domain(HOST, paused=True)
    assert not isinstance(claim(), ClaimedJob)
    assert in_force() == LimitsInForce(DomainLimits(7.5, paused=True), "")
    host_settings.change_domain(HOST, paused=False)
    claimed()


def test_a_change_is_of_the_row_as_it_stands_by_now(servers: RedisServers) -> None:
    host_settings.save_domain(FetchDomain(scope=HOST))
    FetchDomain.objects.update(delay_seconds=3)
    host_settings.change_domain(HOST, paused=True)
    assert in_force().limits == DomainLimits(3, paused=True)


def test_a_domain_without_a_row_can_be_changed(servers: RedisServers) -> None:
    host_settings.change_domain("example.com", counted_by="registrable")
    assert in_force("example.com").counted_by == "registrable"


@pytest.mark.parametrize("scope", ["a.example.com/tiles", "address:192.0.2.1"])
def test_only_hosts_and_domains_can_be_counted_otherwise(servers: RedisServers, scope: str) -> None:
    host_settings.save_domain(FetchDomain(scope=scope, counted_by="registrable", delay_seconds=2))
    assert in_force(scope) == LimitsInForce(DomainLimits(2), "")


def test_a_deleted_domain_has_no_limits(servers: RedisServers) -> None:
    domain = FetchDomain(scope=HOST, delay_seconds=1, counted_by="path")
    host_settings.save_domain(domain)
    host_settings.delete_domain(domain)
    assert in_force() == host_settings.NO_LIMITS
    assert not FetchDomain.objects.exists()


def test_without_redis_nothing_is_changed(servers: RedisServers) -> None:
    host_settings.save_domain(FetchDomain(scope=HOST, delay_seconds=1))
    servers.state.stop()
    domain = FetchDomain.objects.get()
    domain.delay_seconds = 2
    attempts: list[Callable[[], None]] = [
        lambda: host_settings.save_domain(domain),
        lambda: host_settings.change_domain(HOST, paused=True),
        lambda: host_settings.change_domain("b.example.com", paused=True),
        lambda: host_settings.delete_domain(FetchDomain.objects.get()),
    ]
    for attempt in attempts:
        with pytest.raises(StoreUnavailable):
            attempt()
    assert list(FetchDomain.objects.values_list("scope", "delay_seconds", "paused")) == [(HOST, 1, False)]


def test_lost_limits_are_set_again(servers: RedisServers) -> None:
    host_settings.save_domain(FetchDomain(scope=HOST, delay_seconds=0.1 + 0.2, in_flight=3, bytes_per_second=10**12))
    host_settings.save_domain(FetchDomain(scope="example.com", counted_by="address:192.0.2.1"))
    before = in_force()
    assert restored() == []
    servers.state.client.flushall()
    assert restored() == [HOST, "example.com"]
    assert in_force() == before
    assert in_force("example.com").counted_by == "address:192.0.2.1"
    assert restored() == []


def test_what_redis_took_without_saying_so_is_taken_back(servers: RedisServers) -> None:
    FetchDomain.objects.create(scope=HOST)
    FetchDomain.objects.update(updated_at=datetime(2020, 1, 1, tzinfo=UTC))
    stores.run_steps(queue.set_limits(HOST, DomainLimits(paused=True)))
    assert restored() == []  # there is no reason to doubt it
    host_settings.mark_doubtful([HOST], datetime.now(UTC))
    assert restored() == [HOST]
    assert in_force() == host_settings.NO_LIMITS


def test_limits_hold_for_all_ways_out_but_for_those_with_their_own(clock: Clock) -> None:
    ways = [scope_via(HOST, name) for name in ("one", "two")]
    enqueue(*(job(name, egress=name) for name in ("one", "two")))
    for way in ways:
        FetchDomain.objects.create(scope=way)
    host_settings.save_domain(FetchDomain(scope=HOST, delay_seconds=5))
    assert [in_force(way).limits for way in ways] == [DomainLimits(5), DomainLimits(5)]
    assert restored() == []
    host_settings.change_domain(ways[0], in_flight=1)
    host_settings.change_domain(HOST, delay_seconds=6)
    assert [in_force(way).limits for way in ways] == [DomainLimits(in_flight=1), DomainLimits(6)]
    host_settings.change_domain(ways[0], in_flight=None)
    assert in_force(ways[0]).limits == DomainLimits(6)
    host_settings.delete_domain(FetchDomain.objects.get(scope=HOST))
    assert [in_force(way).limits for way in ways] == [DomainLimits(), DomainLimits()]
    assert restored() == []


def test_a_pass_costs_one_query_for_all_that_set_nothing(
    servers: RedisServers, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    FetchDomain.objects.bulk_create([FetchDomain(scope=f"{number}.example.com") for number in range(20)])
    with django_assert_num_queries(1):
        assert host_settings.restore_limits(datetime.now(UTC) + timedelta(days=1)) == []
    assert not servers.state.client.keys("fetch:domain:*")


def test_more_rows_than_a_batch_are_compared(servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_settings, "RESTORE_BATCH_ROWS", 3)
    FetchDomain.objects.bulk_create([FetchDomain(scope=f"{number}.example.com", paused=True) for number in range(7)])
    assert len(restored()) == 7
    assert record("6.example.com")["set_paused"] == "1"


def test_the_task_waits_for_redis_to_come_back(servers: RedisServers) -> None:
    FetchDomain.objects.create(scope=HOST, paused=True)
    servers.state.stop()
    tasks.apply_fetch_limits()
    servers.state.start()
    stores.BREAKERS["state"].succeeded()
    tasks.apply_fetch_limits()
    assert in_force().limits.paused
