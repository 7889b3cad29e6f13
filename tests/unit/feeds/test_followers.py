from datetime import timedelta

import pytest

from feeds.keeping import following, readers
from feeds.models import Feed
from tests.conftest import RedisServers
from tests.feeds import rows
from tests.feeds.keeping.rows import user
from tests.feeds.rows import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

DAY = timedelta(days=1)


def counted(slug: str) -> tuple[int, int]:
    row = Feed.objects.get(slug=slug)
    return row.reader_count, row.subscriber_count


def test_readers_are_counted_once_each_and_added_to_the_followers() -> None:
    sea = rows.feed("sea")
    rows.feed("land")
    following.follow(user("ann").pk, [sea.pk], NOW)
    readers.note({"sea 000001", "sea 000002"}, NOW)
    readers.note({"sea 000001", "land 000001", "land", "nowhere 000001"}, NOW + DAY)
    assert readers.count(NOW + DAY) == 2
    assert counted("sea") == (2, 3)
    assert counted("land") == (1, 1)


def test_a_feed_is_counted_anew_when_it_is_read_and_else_in_its_turn() -> None:
    sea = rows.feed("sea")
    readers.note({"sea 000001"}, NOW)
    assert readers.count(NOW) == 1
    turn = next(
        NOW + timedelta(minutes=at) for at in range(1, 1441) if int(NOW.timestamp() // 60 + at) % 1440 == sea.pk
    )
    assert readers.count(turn - timedelta(minutes=1)) == 0
    assert readers.count(turn) == 1


def test_who_stays_away_for_fourteen_days_is_no_reader_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "TURNS", 1)
    rows.feed("sea")
    readers.note({"sea 000001", "sea 000002"}, NOW)
    readers.note({"sea 000002"}, NOW + DAY)
    for days, number in ((13, 2), (14, 1), (15, 0)):
        readers.count(NOW + days * DAY)
        assert counted("sea") == (number, number)


def test_what_is_known_of_readers_is_forgotten_in_the_end(redis_servers: RedisServers) -> None:
    sea = rows.feed("sea")
    readers.note({"sea 000001"}, NOW)
    left = redis_servers.state.client.ttl(f"feeds:readers:{sea.pk}:20261101")
    assert 14 * DAY.total_seconds() < left <= 15 * DAY.total_seconds()


def test_a_pass_that_was_killed_loses_nobody_who_comes_again() -> None:
    sea = rows.feed("sea")
    readers.note({"sea 000001"}, NOW)
    assert readers._just_read() == [sea.pk]  # and then it was killed
    readers.note({"sea 000001"}, NOW + DAY)
    readers.count(NOW + DAY)
    assert counted("sea") == (1, 1)


def test_a_slug_given_anew_has_none_of_the_readers_of_the_feed_that_had_it() -> None:
    sea = rows.feed("sea")
    readers.note({"sea 000001", "sea 000002"}, NOW)
    sea.delete()
    rows.feed("sea")
    readers.note({"sea 000003"}, NOW)
    readers.count(NOW)
    assert counted("sea") == (1, 1)
