"""Feeds that are to be fetched before the rest: who asks for a scan, and what happens when Redis is away."""

import pytest
from django.db import transaction

from feeds import addresses
from feeds.keeping import adding, flagging
from feeds.models import Feed
from retry import connections
from tests.conftest import RedisServers
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db


def waiting(servers: RedisServers) -> int:
    """How many tasks wait in the queue of the scan."""
    return int(servers.state.client.llen("work"))


def test_nobody_asks_for_a_scan_of_feeds_that_are_paused(redis_servers: RedisServers) -> None:
    assert flagging.flag([rows.feed("one", paused=True).pk], NOW) == 0
    assert waiting(redis_servers) == 0


@pytest.mark.django_db(transaction=True)
def test_a_scan_is_asked_for_when_it_can_see_what_was_flagged(redis_servers: RedisServers) -> None:
    feed = rows.feed("one")
    flagging.begin_scan()
    before = waiting(redis_servers)
    with transaction.atomic():
        flagging.flag([feed.pk], NOW)
        assert waiting(redis_servers) == before
    assert waiting(redis_servers) == before + 1


@pytest.mark.django_db(transaction=True)
def test_a_scan_is_asked_for_when_feeds_are_added_and_only_for_new_ones(redis_servers: RedisServers) -> None:
    for _ in range(2):
        adding.add(addresses.read("https://one.example/feed"), now=NOW)
        assert waiting(redis_servers) == 1
        flagging.begin_scan()


@pytest.mark.django_db(transaction=True)
def test_a_feed_is_flagged_also_while_redis_is_away_and_nobody_waits_for_it(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(connections, "patient_client")  # which would try for seconds
    redis_servers.state.stop()
    assert flagging.flag([rows.feed("one").pk], NOW) == 1
    assert Feed.objects.get().flagged_at == NOW
    assert "tarry.feeds" not in {each.name for each in caplog.records}
