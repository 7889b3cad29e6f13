"""Which entries go: the oldest beyond the number of their feed, and those that left it long ago. None that it has."""

from datetime import timedelta

import pytest
from pytest_django import Settings

from feeds.keeping import pruning
from feeds.models import Entry, Feed
from tests.feeds import rows
from tests.feeds.rows import NOW

pytestmark = pytest.mark.django_db


@pytest.fixture
def one() -> Feed:
    """A feed whose entries 1 to 4 have left it, the first long ago; 5 is the oldest of all and still there."""
    made = rows.feed("one")
    for number in range(1, 6):
        entry = rows.add(made, rows.entry(number, published=NOW - timedelta(days=100 * (number == 5) - number)))
        left_at = None if number == 5 else NOW - timedelta(days=400 if number == 1 else 1)
        Entry.objects.filter(pk=entry.pk).update(left_at=left_at)
    return made


def numbers() -> list[int]:
    return sorted(int(title.split()[1]) for title in Entry.objects.values_list("title", flat=True))


def test_the_oldest_beyond_the_number_go_but_none_that_the_feed_has(one: Feed, settings: Settings) -> None:
    settings.FEEDS_KEEP_ENTRIES = 3
    assert pruning.prune_feed(one.pk, 5) == 2
    assert numbers() == [3, 4, 5]


def test_what_left_its_feed_long_ago_goes(one: Feed) -> None:
    assert pruning.prune_old(NOW, 1) == 1
    assert numbers() == [2, 3, 4, 5]


def test_entries_are_kept_for_ever_where_that_is_wanted(one: Feed, settings: Settings) -> None:
    settings.FEEDS_KEEP_DAYS = 0
    assert pruning.prune_old(NOW, 1) == 0
