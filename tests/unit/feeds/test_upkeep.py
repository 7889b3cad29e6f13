"""Pruned entries: the oldest beyond the limit of their feed, and those that left it long ago; mail of failing feeds."""

from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from pytest_django import Settings

from feeds import lifecycle, tasks, upkeep
from feeds.models import Entry, Feed, Supplement
from resources import locks
from tests.support import feed_rows, plain_feeds
from tests.support.feed_rows import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


@pytest.fixture
def one() -> Feed:
    """A feed whose entries 1 to 4 have left it, the first long ago; 5 is the oldest of all and still there."""
    made = feed_rows.feed("one")
    for number in range(1, 6):
        entry = feed_rows.add(
            made, feed_rows.entry(number, published=NOW - timedelta(days=100 * (number == 5) - number))
        )
        left_at = None if number == 5 else NOW - timedelta(days=400 if number == 1 else 1)
        Entry.objects.filter(pk=entry.pk).update(left_at=left_at)
    return made


def numbers() -> list[int]:
    return sorted(int(title.split()[1]) for title in Entry.objects.values_list("title", flat=True))


def test_the_oldest_beyond_the_number_go_but_none_that_the_feed_has(one: Feed, settings: Settings) -> None:
    settings.FEEDS_KEEP_ENTRIES = 3
    assert upkeep.prune_feed_entries(one.pk, 5) == 2
    assert numbers() == [3, 4, 5]


def test_what_left_its_feed_long_ago_goes(one: Feed) -> None:
    assert upkeep.prune_old_entries(NOW, 1) == 1
    assert numbers() == [2, 3, 4, 5]


def test_entries_are_kept_for_ever_where_that_is_wanted(one: Feed, settings: Settings) -> None:
    settings.FEEDS_KEEP_DAYS = 0
    assert upkeep.prune_old_entries(NOW, 1) == 0


def test_supplements_whose_entry_or_feed_an_earlier_version_deleted_go_a_part_of_them_at_a_time(
    one: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SUPPLEMENTS_AT_ONCE", 4)
    monkeypatch.setattr(upkeep, "ENTRIES_PER_DELETION", 2)
    gone = feed_rows.feed("gone")
    rows = [Supplement.objects.create(entry=each, kind="article") for each in one.entries.order_by("pk")]
    rows += [Supplement.objects.create(feed=each, kind="icon", due_at=NOW) for each in (one, gone)]
    Entry.objects.filter(pk__in=[row.entry_id for row in rows[:3]])._raw_delete("default")
    Feed.objects.filter(pk=gone.pk)._raw_delete("default")
    removed = [upkeep.prune_supplements(NOW + timedelta(minutes=number)) for number in range(rows[-1].pk // 4 + 1)]
    assert sum(removed) == 4
    assert max(removed) < 4
    assert set(Supplement.objects.values_list("pk", flat=True)) == {row.pk for row in rows[3:6]}


@pytest.fixture(autouse=True)
def _wanted(settings: Settings) -> None:
    settings.MAIL_TO, settings.FEEDS_MAIL_AFTER_HOURS = ["admin@site.example"], 24


MAIL_NOW = plain_feeds.NOW


def failing(name: str, hours: float, **fields: Any) -> Feed:
    since = MAIL_NOW - timedelta(hours=hours)
    return plain_feeds.feed(
        name, **{"state": "failing", "failing_since": since, "reason": "Not fetched: why.", **fields}
    )


def test_one_mail_tells_of_all_that_have_failed_for_long() -> None:
    failing("old", 100)
    feed = failing("long", 25, own_title="A\nfeed")
    failing("just", 23)
    failing("paused", 100, paused=True)
    assert upkeep.mail_failing_feeds(MAIL_NOW) == 2
    (sent,) = mail.outbox
    assert sent.to == ["admin@site.example"]
    assert sent.subject == "[Tarry] 2 feeds have been failing for more than 1 d"
    assert sent.body.index("https://old.example/feed") < sent.body.index("https://long.example/feed")
    assert f"Since 21 November 2026, 11:00 UTC. Not fetched: why.\nhttp://testserver/admin/feeds/feed/{feed.pk}/" in (
        sent.body
    )
    assert "https://just.example" not in sent.body


def test_a_feed_is_told_of_once_until_it_has_gone_well_again() -> None:
    feed = failing("one", 25)
    later = MAIL_NOW + timedelta(days=2)
    assert [upkeep.mail_failing_feeds(MAIL_NOW), upkeep.mail_failing_feeds(later)] == [1, 0]
    Feed.objects.filter(pk=feed.pk).update(failing_since=None)
    assert upkeep.mail_failing_feeds(later) == 0
    Feed.objects.filter(pk=feed.pk).update(failing_since=MAIL_NOW + timedelta(hours=1))
    assert upkeep.mail_failing_feeds(later) == 1


@pytest.mark.parametrize(("name", "value"), [("MAIL_TO", []), ("FEEDS_MAIL_AFTER_HOURS", 0)])
def test_nobody_is_told_where_that_is_not_wanted(settings: Settings, name: str, value: Any) -> None:
    setattr(settings, name, value)
    failing("one", 100)
    assert upkeep.mail_failing_feeds(MAIL_NOW) == 0
    assert not mail.outbox


def test_of_very_many_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAX_MAILED_FEEDS", 1)
    for name in ("one", "two", "three"):
        failing(name, 30)
    upkeep.mail_failing_feeds(MAIL_NOW)
    assert "And 2 more." in mail.outbox[0].body


def test_who_cannot_be_told_now_is_told_the_next_time(settings: Settings) -> None:
    failing("one", 1_000_000)
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1  # no process listens there
    tasks.tell_of_failing()
    assert Feed.objects.get().mailed_at is None
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    tasks.tell_of_failing()
    assert len(mail.outbox) == 1
    assert Feed.objects.get().mailed_at is not None


def test_one_process_at_a_time_sends_mail() -> None:
    failing("long", 25)
    with locks.hold_lock("feeds:mailing", 60):
        assert upkeep.mail_failing_feeds(MAIL_NOW) == 0
    assert upkeep.mail_failing_feeds(MAIL_NOW) == 1


def test_supplements_go_with_their_entries() -> None:
    row = plain_feeds.feed("blog")
    gone = plain_feeds.entry(row, "Old", left_at=NOW - timedelta(days=9_999))
    kept = plain_feeds.entry(row, "New")
    for entry in (gone, kept):
        Supplement.objects.create(entry=entry, kind="article")
    assert upkeep.prune_old_entries(NOW, seconds=5) == 1
    assert list(Supplement.objects.values_list("entry", flat=True)) == [kept.pk]
    lifecycle.remove_feeds([row.pk], NOW)
    assert not Supplement.objects.exists()
