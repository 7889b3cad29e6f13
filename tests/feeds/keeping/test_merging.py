"""One feed of several."""

import pytest

from feeds.keeping import following, merging, moves
from feeds.models import Category, Entry, Feed
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db


def test_entries_followers_categories_and_moves_of_all_are_kept_once() -> None:
    kept, other = rows.feed("one"), rows.feed("two")
    for feed in (kept, other):
        rows.entry(feed, "both")
    rows.entry(other, "old")
    one, two = rows.user("one"), rows.user("two")
    following.follow(one.pk, [kept.pk, other.pk], NOW)
    following.follow(two.pk, [other.pk], NOW)
    other.categories.add(Category.objects.create(slug="news", title="News"))
    moves.move(other.pk, "https://three.example/", "It has moved.", NOW)
    assert merging.merge(kept.pk, [other.pk, kept.pk], NOW) == 1
    kept.refresh_from_db()
    assert Feed.objects.get() == kept
    assert sorted(kept.entries.values_list("title", flat=True)) == ["both", "old"]
    assert (kept.follows.count(), kept.subscriber_count, kept.moves.count()) == (2, 2, 1)
    assert [category.slug for category in kept.categories.all()] == ["news"]


def test_what_one_of_them_was_told_of_is_fetched_of_the_one_that_is_kept() -> None:
    kept, other = rows.feed("one"), rows.feed("two")
    merging.merge(kept.pk, [rows.feed("three").pk], NOW)
    assert Feed.objects.get(pk=kept.pk).flagged_at is None
    Feed.objects.filter(pk=other.pk).update(flagged_at=NOW)
    merging.merge(kept.pk, [other.pk], NOW)
    assert Feed.objects.get().flagged_at == NOW


def test_an_entry_that_has_another_id_in_each_is_kept_once() -> None:
    kept, other = rows.feed("one"), rows.feed("two")
    one, same = rows.entry(kept, "by guid"), rows.entry(other, "by atom id")
    Entry.objects.filter(pk=same.pk).update(likeness=one.likeness)
    merging.merge(kept.pk, [other.pk], NOW)
    assert list(kept.entries.all()) == [one]


def test_readers_see_that_output_has_changed() -> None:
    kept, other = rows.feed("one"), rows.feed("two")
    news = Category.objects.create(slug="news", title="News")
    other.categories.add(news)
    merging.merge(kept.pk, [other.pk], NOW)
    kept.refresh_from_db()
    news.refresh_from_db()
    assert min(kept.version, news.version) > 0


@pytest.mark.parametrize("paused", [True, False])
def test_what_is_merged_into_a_paused_feed_is_shown_by_no_older_page(paused: bool) -> None:
    kept, other = rows.feed("one", paused=paused), rows.feed("two")
    news = Category.objects.create(slug="news", title="News")
    other.categories.add(news)
    merging.merge(kept.pk, [other.pk], NOW)
    news.refresh_from_db()
    assert (news.least_version > 0) == paused


def test_nothing_is_merged_into_a_feed_that_is_gone() -> None:
    feed = rows.feed("one")
    assert merging.merge(0, [feed.pk], NOW) == 0
    assert merging.merge(feed.pk, [0, feed.pk], NOW) == 0
    assert Feed.objects.get() == feed
