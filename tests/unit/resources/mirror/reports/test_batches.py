"""Lists in the database: after repeated, simultaneous or late steps the rows are right."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from resources.mirror import lookup
from resources.mirror.ingest import feeder, wanted_urls
from resources.mirror.models import Batch, BatchItem, DedupeStep, Resource
from resources.mirror.reports import batches
from resources.tasks import heal_batches, look_after_batches
from tests.conftest import RedisServers
from tests.support.mirror_rows import HOUR, NOW, digest_of, fail, report, resource, steps, store, url

pytestmark = pytest.mark.django_db


def test_a_list_is_finished_when_its_last_url_has_ended() -> None:
    batch = report("a", "b", "c").batch
    store("a")
    fail("b", "410 Gone")
    assert not batches.settle_batch(batch.pk, NOW)
    store("c", step=DedupeStep.CONTENT)
    assert batches.settle_batch(batch.pk, NOW + HOUR)
    assert steps(batch) == ["new", "failed", "content"]
    assert BatchItem.objects.get(step="failed").detail == "410 Gone"
    assert Batch.objects.get().finished_at == NOW + HOUR


def test_to_settle_again_changes_nothing() -> None:
    batch = report("a", webhook="https://example.org/told").batch
    store("a")
    batches.settle_named_batches([lookup.batch_name(batch.pk)], NOW)
    fail("a")
    for _ in range(2):
        batches.settle_named_batches(
            [lookup.batch_name(batch.pk), "batch:x", "other:y", f"batch:{uuid4()}"], NOW + HOUR
        )
    batch.refresh_from_db()
    assert (batch.finished_at, batch.call_at) == (NOW, NOW)
    assert steps(batch) == ["new"]


def test_who_joins_counts_as_known_and_who_asked_as_new() -> None:
    first, second = report("a", "a").batch, report("b", "a").batch
    for name in ("a", "b"):
        store(name)
    for batch in (first, second):
        assert batches.settle_batch(batch.pk, NOW)
    assert steps(first) == ["new", "known"]
    assert steps(second) == ["new", "known"]


def test_what_was_lost_is_asked_for_again() -> None:
    """The process that made the list was killed before it asked."""
    batch = report("a", "b", referer="https://example.org/#place").batch
    Resource.objects.all().delete()
    batches.heal_batches(NOW + timedelta(seconds=59), 5)
    assert not Resource.objects.exists()
    assert batches.heal_batches(NOW + timedelta(seconds=61), 5) == 1
    assert set(Resource.objects.values_list("url", "referer")) == {(url(name), "https://example.org/") for name in "ab"}
    assert not batches.settle_batch(batch.pk, NOW)


def test_what_nobody_was_told_of_is_settled(redis_servers: RedisServers) -> None:
    report("a")
    store("a")
    redis_servers.state.client.flushall()
    heal_batches()
    assert Batch.objects.get().finished_at


def test_a_url_that_ends_meanwhile_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after it was looked up, and before the list is written."""
    resource("a")
    write = batches.create_batch

    def ended_before(*arguments: Any) -> Any:
        store("a")
        lookup.resume_batches([digest_of(url("a"))])
        return write(*arguments)

    monkeypatch.setattr(batches, "create_batch", ended_before)
    batch = report("a", "b").batch
    look_after_batches()
    assert steps(batch) == ["known", ""]


def test_reported_urls_leave_no_key_in_state_and_ended_ones_a_bounded_number(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MAX_UNSETTLED_BATCHES", 3)
    state, keys = redis_servers.state.client, set[bytes]()
    for number in range(10):
        report(*(f"{number}/{place}" for place in range(20)))
        keys |= set(state.scan_iter("mirror:*"))
    for number in range(10):
        store(f"{number}/0")
        lookup.resume_batches([digest_of(url(f"{number}/0"))])
    assert keys == {b"mirror:feed-asked"}
    assert state.scard(lookup.UNSETTLED_BATCHES_KEY) == 3
    batches.heal_batches(NOW, 60)
    assert BatchItem.objects.filter(step="new").count() == 10


def test_reports_call_the_feeder_once_until_it_runs(redis_servers: RedisServers) -> None:
    for name in "abc":
        report(name)
    assert redis_servers.state.client.llen(wanted_urls.FEED_QUEUE) == 1
    feeder.feed_fetchers(NOW)
    report("d")
    assert redis_servers.state.client.llen(wanted_urls.FEED_QUEUE) == 2
