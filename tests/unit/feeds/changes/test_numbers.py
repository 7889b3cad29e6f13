"""The numbers of the change log: in the order of commits, whatever writes at once."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import connection, transaction

from feeds import feed_rows, versions
from feeds.change_rows import ChangeLog, ChangeSpan, Membership, MembershipCheck, Removal
from feeds.changes import log, numbers
from feeds.changes.log import PageBounds
from feeds.changes.positions import ChangeCursor, ChangeScope, number_at
from feeds.models import ALL_SLUG, Category, Entry, Feed
from resources import database
from tests.support.feed_rows import NOW, add, category, entry, feed, publish

BOUNDS = PageBounds(100, 1_000_000)


def in_thread(pool: ThreadPoolExecutor, work: Callable[..., Any], *given: Any) -> "Future[Any]":
    return pool.submit(database.run_then_disconnect, lambda: work(*given))


def all_feeds() -> ChangeScope:
    return ChangeScope("c", Category.objects.get(slug=ALL_SLUG).pk)


def follow(cursor: ChangeCursor, found: list[str]) -> ChangeCursor:
    """Reads on; returns the next cursor."""
    page = log.select_changes(cursor, BOUNDS)
    found += [row.title for row in page.changes if isinstance(row, Entry)]
    return page.cursor


@pytest.mark.django_db(transaction=True)
def test_a_reader_misses_nothing_of_many_writers_and_gets_nothing_twice() -> None:
    feeds = [feed(f"f{number}") for number in range(4)]
    numbers.heal_memberships()
    barrier, is_over, found = Barrier(5), Event(), list[str]()

    def write(row: Feed) -> None:
        barrier.wait(20)
        for number in range(15):
            with database.write_turn(), transaction.atomic():
                add(row, entry(number, id=f"{row.slug} {number}", title=f"{row.slug} {number}"))
                numbers.number_on_commit()

    def read() -> None:
        cursor = log.start_cursor(all_feeds())
        barrier.wait(20)
        while not is_over.is_set():
            cursor = follow(cursor, found)
        numbers.number_changes(datetime.now(UTC))
        while (after := follow(cursor, found)) != cursor:
            cursor = after

    with ThreadPoolExecutor(5) as pool:
        reader = in_thread(pool, read)
        for writer in [in_thread(pool, write, row) for row in feeds]:
            writer.result(60)
        is_over.set()
        reader.result(60)
    assert sorted(found) == sorted(f"f{one} {number}" for one in range(4) for number in range(15))


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor == "sqlite", reason="it has one writer at a time")
def test_a_long_transaction_holds_up_no_numbers_and_is_not_passed_over() -> None:
    sea = feed("sea", entry(1))
    numbers.heal_memberships()
    numbers.number_changes(NOW)
    cursor = log.select_changes(log.start_cursor(all_feeds()), BOUNDS).cursor
    is_written, may_end = Event(), Event()

    def write_slowly() -> None:
        with transaction.atomic():
            add(sea, entry(2))
            Entry.objects.filter(title="Entry 1").update(title="edited", change_number=None)
            is_written.set()
            may_end.wait(20)

    with ThreadPoolExecutor(1) as pool:
        slow = in_thread(pool, write_slowly)
        assert is_written.wait(20)
        add(sea, entry(3))
        numbers.number_changes(NOW)
        first = list[str]()
        cursor = follow(cursor, first)
        may_end.set()
        slow.result(20)
    numbers.number_changes(NOW)
    later = list[str]()
    follow(cursor, later)
    assert (first, sorted(later)) == (["Entry 3"], ["Entry 2", "edited"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor == "sqlite", reason="it has one writer at a time")
def test_feeds_are_removed_while_their_entries_get_numbers_and_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "_number_quietly", lambda: None)
    one, other = feed("one"), feed("other")
    for row in (one, other):
        publish(row, {"id": "https://a.example.org/?p=1", "title": "Tides"})
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            versions.lock_rows(Feed.objects.filter(pk=other.pk))
            feed_rows.touch_feeds([other.pk], NOW, withdrawn=True)
            numbering = in_thread(pool, numbers.number_changes, NOW)
            wait_until_a_lock_is_waited_for()
            Feed.objects.filter(pk=other.pk).delete()
        assert numbering.result(20)
    assert not Feed.objects.filter(pk=other.pk).exists()


def wait_until_a_lock_is_waited_for() -> None:
    until = time.monotonic() + 20
    with connection.cursor() as cursor:
        while time.monotonic() < until:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone()[0]:
                return
            time.sleep(0.01)
    pytest.fail("No process waits.")


@pytest.mark.django_db(transaction=True)
def test_changes_get_their_numbers_when_they_are_committed() -> None:
    sea = feed("sea", entry(1))
    with transaction.atomic():
        numbers.check_feeds([sea.pk])
        numbers.number_on_commit()
        assert not ChangeLog.objects.exists()
    assert Entry.objects.filter(change_number=ChangeLog.objects.get().head).count() == 1
    assert Membership.objects.filter(feed_number=sea.pk).count() == 1
    assert not MembershipCheck.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_leaves_nothing_behind() -> None:
    sea = feed("sea", entry(1))
    numbers.number_changes(NOW)
    with transaction.atomic():
        numbers.delete_entries(Entry.objects.filter(feed=sea), "pruned")
        transaction.set_rollback(True)
    assert (Entry.objects.count(), Removal.objects.count()) == (1, 0)


@pytest.mark.django_db
def test_many_entries_are_numbered_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "NUMBERED_AT_ONCE", 2)
    feed("sea", *(entry(number) for number in range(5)))
    assert numbers.number_changes(NOW) == 5
    found = Entry.objects.order_by("change_number").values_list("change_number", flat=True)
    assert list(found) == [number_at(NOW) + part for part in (0, 0, 1, 1, 2)]
    assert numbers.number_changes(NOW) == 0


@pytest.mark.django_db
def test_numbers_without_a_pause_are_one_span() -> None:
    sea = feed("sea", entry(1))
    for number, seconds in enumerate((0, 5, 14, 30)):
        add(sea, entry(number + 10))
        numbers.number_changes(datetime.fromtimestamp(NOW.timestamp() + seconds, UTC))
    spans = ChangeSpan.objects.order_by("first").values_list("first", "last")
    since = number_at(NOW)
    assert list(spans) == [(since, since + 14_000_000), (since + 30_000_000, since + 30_000_000)]


@pytest.mark.django_db
def test_an_entry_that_has_no_number_yet_leaves_no_removal_behind() -> None:
    feed("sea", entry(1))
    assert numbers.delete_entries(Entry.objects.all(), "pruned") == 1
    assert not Removal.objects.exists()


@pytest.mark.django_db
def test_an_entry_that_is_removed_before_its_edit_has_a_number_leaves_a_removal_behind() -> None:
    feed("sea", entry(1))
    numbers.number_changes(NOW)
    Entry.objects.update(change_number=None)
    numbers.delete_entries(Entry.objects.all(), "pruned")
    assert Removal.objects.count() == 1


@pytest.mark.django_db
def test_what_an_earlier_version_did_is_found() -> None:
    kept, paused, gone = feed("kept"), feed("paused"), feed("gone")
    numbers.heal_memberships()
    numbers.number_changes(NOW)
    Feed.objects.filter(pk=paused.pk).update(paused=True)
    Feed.objects.filter(pk=gone.pk).delete()
    new, wet = feed("new"), category("wet", kept)
    numbers.heal_memberships()
    numbers.number_changes(NOW)
    everything = Category.objects.get(slug=ALL_SLUG).pk
    assert set(Membership.objects.values_list("feed_number", "category_number")) == {
        *((kept.pk, everything), (new.pk, everything), (kept.pk, wet.pk))
    }
    assert set(Removal.objects.values_list("feed_number", "reason")) == {(paused.pk, "paused"), (gone.pk, "deleted")}
