"""The settings of hosts: limits in the database and in force in Redis, sealed values, headers."""

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError
from pytest_django import DjangoAssertNumQueries, Settings

from resources import tasks
from resources.fetch import host_settings
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits, LimitsInForce
from resources.fetch.host_settings import HostHeader
from resources.fetch.http.limit_scopes import scope_via
from resources.fetch.http.messages import UnreadableSealError
from resources.fetch.models import FetchDomain, FetchHeader
from retry import stores
from tests.conftest import RedisServers
from tests.support.frontier import HOST, enqueue, job, record
from tests.support.frontier_clock import Clock

pytestmark = pytest.mark.django_db


def in_force(scope: str = HOST) -> LimitsInForce:
    return stores.run_steps(queue.read_limits_in_force([scope]))[0]


def restored() -> list[str]:
    return host_settings.restore_limits(datetime.now(UTC))


def test_a_change_is_of_the_row_as_it_stands_by_now(servers: RedisServers) -> None:
    host_settings.save_domain(FetchDomain(scope=HOST))
    FetchDomain.objects.update(delay_seconds=3)
    host_settings.change_domain(HOST, paused=True)
    assert in_force().limits == DomainLimits(3, paused=True)


@pytest.mark.parametrize("scope", ["a.example.com/tiles", "address:192.0.2.1", "a.example.com via proxy"])
def test_only_hosts_and_domains_can_be_counted_otherwise(servers: RedisServers, scope: str) -> None:
    host_settings.save_domain(FetchDomain(scope=scope, counted_by="registrable", delay_seconds=2))
    assert in_force(scope) == LimitsInForce(DomainLimits(2), "")


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
    host_settings.delete_domain(FetchDomain.objects.get(scope="example.com"))
    assert in_force("example.com") == host_settings.NO_LIMITS


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


def test_an_own_server_gets_its_requests_without_a_gap_but_what_an_admin_sets_wins(servers: RedisServers) -> None:
    host_settings.set_own_servers(lambda: {HOST: 64})
    assert in_force().limits == DomainLimits(0, 64, 0)
    host_settings.change_domain(HOST, in_flight=5, bytes_per_second=1000)
    assert in_force().limits == DomainLimits(0, 5, 1000)
    host_settings.change_domain(HOST, in_flight=None, delay_seconds=2)
    assert in_force().limits == DomainLimits(2, 64, 1000)


def test_limits_of_own_servers_are_restored_changed_and_withdrawn(servers: RedisServers) -> None:
    host_settings.set_own_servers(lambda: {HOST: 64})
    servers.state.client.flushall()
    assert restored() == [HOST]
    assert in_force().limits == DomainLimits(0, 64, 0)
    host_settings.set_own_servers(lambda: {"b.example.com": 8})
    assert [in_force(scope).limits for scope in (HOST, "b.example.com")] == [DomainLimits(), DomainLimits(0, 8, 0)]


def test_a_pass_costs_one_query_for_all_that_set_nothing(
    servers: RedisServers, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    FetchDomain.objects.bulk_create([FetchDomain(scope=f"{number}.example.com") for number in range(20)])
    with django_assert_num_queries(1):
        assert host_settings.restore_limits(datetime.now(UTC) + timedelta(days=1)) == []
    assert not servers.state.client.keys("fetch:{0}:domain:*")


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


TILE_HOST = "a.example.com:8080"


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host_settings, "HEADERS_SNAPSHOT_SECONDS", 0)
    monkeypatch.setattr(host_settings, "_logged_missing", set())
    host_settings.headers_snapshot.forget()
    yield
    host_settings.headers_snapshot.forget()


def header(
    name: str = "Referer", value: str = "https://example.org/", host: str = TILE_HOST, **given: Any
) -> FetchHeader:
    sealed = "" if "variable" in given else host_settings.seal_value(value)
    return FetchHeader.objects.create(host=host, name=name, **{"sealed": sealed, **given})


def fields(host: str = TILE_HOST) -> dict[str, str]:
    return {each.name: each.value for each in host_settings.headers_for_url(f"https://{host}/")}


def test_a_host_has_its_own_headers_and_no_others() -> None:
    header()
    header("Authorization", "Bearer x")
    header(host="b.example.com", value="other")
    assert fields() == {"Referer": "https://example.org/", "Authorization": "Bearer x"}
    assert fields("a.example.com") == {}


@pytest.mark.parametrize("name", ["User-Agent", "referer", "Accept", "Accept-Language"])
def test_a_field_without_a_secret_goes_with_all_requests_to_its_host(name: str) -> None:
    header(name)
    [found] = host_settings.headers_for_url(f"https://{TILE_HOST}/")
    assert (found.over_http, found.to_any_address) == (True, True)


@pytest.mark.parametrize("ticked", [{}, {"over_http": True}, {"to_any_address": True}])
def test_any_other_field_goes_where_an_admin_has_ticked_it(ticked: dict[str, Any]) -> None:
    header("X-Token", "x", **ticked)
    [found] = host_settings.headers_for_url(f"https://{TILE_HOST}/")
    assert found == HostHeader("X-Token", "x", **ticked)


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "x" * 4001])
def test_a_value_that_cannot_be_sent_is_left_out(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "environ", {"FETCH_HEADER_TILES": value})
    header(variable="FETCH_HEADER_TILES")
    header("X-Other", "sent")
    with caplog.at_level(logging.ERROR, "tarry.headers"):
        assert fields() == {"X-Other": "sent"}
        assert fields() == {"X-Other": "sent"}
    assert len(caplog.records) == 1
    assert value not in caplog.text


def test_a_value_whose_key_is_gone_is_left_out_until_it_is_set_again() -> None:
    kept = header(sealed="gAAAAA")
    assert fields() == {}
    FetchHeader.objects.filter(pk=kept.pk).update(sealed=host_settings.seal_value("new"))
    assert fields() == {"Referer": "new"}


def test_a_database_that_is_away_leaves_the_last_ones_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    header()
    known = host_settings.headers_for_url(f"https://{TILE_HOST}/")
    monkeypatch.setattr(FetchHeader.objects, "all", Mock(side_effect=OperationalError))
    assert host_settings.headers_for_url(f"https://{TILE_HOST}/") == known != ()


def test_what_was_sealed_can_be_opened_and_not_be_read() -> None:
    sealed = host_settings.seal_value("Bearer ☃")
    assert host_settings.unseal_value(sealed) == "Bearer ☃"
    assert "Bearer" not in sealed
    assert host_settings.seal_value("Bearer ☃") != sealed


def test_keys_rotate(settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
    sealed = host_settings.seal_value("x")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
    assert host_settings.unseal_value(sealed) == "x"
    again = host_settings.reseal_value(sealed)
    assert host_settings.reseal_value(again) == again
    settings.SECRET_KEY_FALLBACKS = []
    assert host_settings.unseal_value(again) == "x"
    with pytest.raises(UnreadableSealError):
        host_settings.unseal_value(sealed)


@pytest.mark.parametrize("text", ["", "x", "gAAAAA==", "☃"])
def test_what_was_never_sealed_cannot_be_opened(text: str) -> None:
    with pytest.raises(UnreadableSealError):
        host_settings.unseal_value(text)


def test_headers_outlive_the_key_that_sealed_them(settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "old", []
    kept = FetchHeader.objects.create(host="a.example.com", name="X", sealed=host_settings.seal_value("x"))
    FetchHeader.objects.create(host="a.example.com", name="Y", sealed="lost")
    FetchHeader.objects.create(host="a.example.com", name="Z", variable="FETCH_HEADER_Z")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "new", ["old"]
    tasks.reseal_fetch_headers()
    settings.SECRET_KEY_FALLBACKS = []
    kept.refresh_from_db()
    assert host_settings.unseal_value(kept.sealed) == "x"
    assert FetchHeader.objects.get(name="Y").sealed == "lost"
