"""Lists in the database: after repeated, simultaneous or late steps the rows are right."""

from datetime import timedelta
from uuid import uuid4

import pytest

from resources.mirror import lookup
from resources.mirror.models import Batch, BatchItem, DedupeStep, Resource
from resources.mirror.reports import batches
from resources.tasks import heal_batches, look_after_batches
from tests.conftest import RedisServers
from tests.support.mirror_rows import HOUR, NOW, digest_of, fail, report, resource, steps, store, stored_resource, url

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


def test_who_was_killed_when_a_url_had_ended_leaves_no_mark_beside_it(redis_servers: RedisServers) -> None:
    """Neither for this list nor for another one, whichever is settled first."""
    batch, other = report("a", "b").batch, report("a").batch
    store("a")
    batches.settle_batch(batch.pk, NOW)
    assert redis_servers.state.client.keys("mirror:after:*") == [f"mirror:after:{digest_of(url('b'))}".encode()]
    look_after_batches()
    assert (steps(batch), steps(other)) == (["new", ""], ["known"])


def test_to_settle_again_changes_nothing() -> None:
    batch = report("a", webhook="https://example.org/told").batch
    store("a")
    batches.settle_named_batches([batches.batch_name(batch.pk)], NOW)
    fail("a")
    for _ in range(2):
        batches.settle_named_batches(
            [batches.batch_name(batch.pk), "batch:x", "other:y", f"batch:{uuid4()}"], NOW + HOUR
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
    batch = report("a", "b", referer="https://example.org/").batch
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


def test_old_lists_are_removed_and_unfinished_ones_stay() -> None:
    stored_resource("a")
    old, unfinished = report("a").batch, report("b").batch
    assert batches.prune_batches(NOW, 5) == 0
    assert batches.prune_batches(NOW + HOUR, 5) == 1
    assert list(Batch.objects.all()) == [unfinished]
    assert not BatchItem.objects.filter(batch=old.pk).exists()


def test_a_url_that_ends_meanwhile_is_not_missed(redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after it was looked up, and before the list leaves its name."""
    resource("a")
    leave = lookup.leave_continuation

    def ended_before(url_digests: list[str], name: str) -> None:
        store("a")
        lookup.resume_continuations([digest_of(url("a"))])
        leave(url_digests, name)

    monkeypatch.setattr(lookup, "leave_continuation", ended_before)
    batch = report("a", "b").batch
    assert redis_servers.state.client.keys("mirror:after:*") == [f"mirror:after:{digest_of(url('b'))}".encode()]
    look_after_batches()
    assert steps(batch) == ["known", ""]
