"""Followers and readers of feeds, and the number of subscribers."""

from datetime import datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from feeds import followers
from feeds.models import Feed, Follow
from tests.conftest import RedisServers
from tests.support import feed_rows, plain_feeds
from tests.support.feed_rows import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

DAY = timedelta(days=1)


def counted(slug: str) -> tuple[int, int]:
    row = Feed.objects.get(slug=slug)
    return row.reader_count, row.subscriber_count


def test_readers_are_counted_once_each_and_added_to_the_followers() -> None:
    sea = feed_rows.feed("sea")
    feed_rows.feed("land")
    followers.follow_feeds(plain_feeds.user("ann").pk, [sea.pk], NOW)
    followers.note_readers({"sea 000001", "sea 000002"}, NOW)
    followers.note_readers({"sea 000001", "land 000001", "land", "nowhere 000001"}, NOW + DAY)
    assert followers.count_readers(NOW + DAY) == 2
    assert counted("sea") == (2, 3)
    assert counted("land") == (1, 1)


def test_a_feed_is_counted_anew_when_it_is_read_and_else_in_its_turn() -> None:
    sea = feed_rows.feed("sea")
    followers.note_readers({"sea 000001"}, NOW)
    assert followers.count_readers(NOW) == 1
    place = sea.pk % followers.COUNT_PASSES
    turn = next(NOW + timedelta(minutes=at) for at in range(1, 1441) if int(NOW.timestamp() // 60 + at) % 1440 == place)
    assert followers.count_readers(turn - timedelta(minutes=1)) == 0
    assert followers.count_readers(turn) == 1


def test_who_stays_away_for_fourteen_days_is_no_reader_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "COUNT_PASSES", 1)
    feed_rows.feed("sea")
    followers.note_readers({"sea 000001", "sea 000002"}, NOW)
    followers.note_readers({"sea 000002"}, NOW + DAY)
    for days, number in ((13, 2), (14, 1), (15, 0)):
        followers.count_readers(NOW + days * DAY)
        assert counted("sea") == (number, number)


def test_what_is_known_of_readers_is_forgotten_in_the_end(redis_servers: RedisServers) -> None:
    sea = feed_rows.feed("sea")
    followers.note_readers({"sea 000001"}, NOW)
    left = redis_servers.state.client.ttl(f"feeds:{{0}}:readers:{sea.pk}:20261101")
    assert 14 * DAY.total_seconds() < left <= 15 * DAY.total_seconds()


def test_a_flood_of_readers_takes_a_share_of_state_and_leaves_what_is_counted(
    redis_servers: RedisServers, settings: Settings
) -> None:
    settings.STATE_MAX_BYTES = 256 * 20_000
    for name in ("sea", *(f"land-{number}" for number in range(30))):
        feed_rows.feed(name)
    followers.note_readers({"sea 000001", "sea 000002"}, NOW)
    for number in range(30):
        followers.note_readers({f"land-{number} {reader:06}" for reader in range(2000)}, NOW)
    state = redis_servers.state.client
    assert sum(state.strlen(key) for key in state.scan_iter("feeds:{0}:readers:*")) < 20_000 + 2 * 12_304
    followers.count_readers(NOW)
    assert counted("sea") == (2, 2)


def test_a_pass_that_was_killed_loses_nobody_who_comes_again() -> None:
    sea = feed_rows.feed("sea")
    followers.note_readers({"sea 000001"}, NOW)
    assert followers._ids_just_read(followers._FEEDS) == [sea.pk]  # and then it was killed
    followers.note_readers({"sea 000001"}, NOW + DAY)
    followers.count_readers(NOW + DAY)
    assert counted("sea") == (1, 1)


def test_a_slug_given_anew_has_none_of_the_readers_of_the_feed_that_had_it() -> None:
    sea = feed_rows.feed("sea")
    followers.note_readers({"sea 000001", "sea 000002"}, NOW)
    sea.delete()
    feed_rows.feed("sea")
    followers.note_readers({"sea 000003"}, NOW)
    followers.count_readers(NOW)
    assert counted("sea") == (1, 1)


def read_combinations(*names: str, now: datetime = NOW) -> dict[str, int]:
    """The subscribers of each feed, once these have been noted and counted."""
    followers.note_combination_readers(names, now)
    followers.count_readers(now)
    return {row.slug: row.subscribers for row in followers.with_subscribers(Feed.objects.all())}


def test_a_reader_of_all_feeds_is_a_subscriber_of_each_that_is_in_them() -> None:
    feed_rows.feed("sea")
    feed_rows.feed("hidden", is_hidden=True)
    feed_rows.feed("paused", paused=True)
    followers.note_readers({"sea 000001"}, NOW)
    assert read_combinations("all 000001", "all 000002") == {"sea": 3, "hidden": 0, "paused": 0}


def test_a_reader_of_a_category_counts_for_the_feeds_below_it_too_and_once() -> None:
    sea, land, _ = (feed_rows.feed(slug) for slug in ("sea", "land", "air"))
    outer = plain_feeds.category("outer", land)
    inner = plain_feeds.category("inner", sea, parent=outer)
    assert read_combinations("outer 000001", "inner 000001", "inner 000002") == {"sea": 2, "land": 1, "air": 0}
    inner.feeds.add(land)
    assert read_combinations() == {"sea": 2, "land": 3, "air": 0}  # of both of its categories


def test_readers_of_a_combination_write_no_row_and_no_key_for_its_feeds(
    redis_servers: RedisServers, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    plain_feeds.category("sea", *(feed_rows.feed(f"feed-{number}") for number in range(20)))
    followers.note_combination_readers({"sea 000001", "all 000001"}, NOW)
    with django_assert_max_num_queries(12) as asked:
        followers.count_readers(NOW)
    assert [query["sql"] for query in asked if 'UPDATE "feeds_feed"' in query["sql"]] == []
    assert len(redis_servers.state.client.keys("feeds:*readers:*")) == 2


def test_readers_of_a_combination_who_stay_away_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "COUNT_PASSES", 1)
    feed_rows.feed("sea")
    assert read_combinations("all 000001") == {"sea": 1}
    assert read_combinations(now=NOW + 14 * DAY) == {"sea": 0}


def test_a_feed_that_nobody_follows_any_more_has_its_readers() -> None:
    feed, other = feed_rows.feed("one", reader_count=3), feed_rows.feed("two")
    me, you = plain_feeds.user("me"), plain_feeds.user("you")
    for user in (me, you):
        followers.follow_feeds(user.pk, [feed.pk, other.pk], NOW)
    assert followers.unfollow_feeds(me.pk, [feed.pk]) == 1
    assert followers.unfollow_feeds(you.pk, [feed.pk]) == 1
    feed.refresh_from_db()
    other.refresh_from_db()
    assert (feed.subscriber_count, other.subscriber_count) == (3, 2)


def test_feeds_that_are_gone_are_not_followed() -> None:
    assert followers.follow_feeds(plain_feeds.user("me").pk, [1, 2], NOW) == 0
    assert not Follow.objects.exists()


def test_users_who_are_deleted_are_counted_no_more_after_a_day() -> None:
    feed, gone = feed_rows.feed("one", reader_count=1), plain_feeds.user("gone")
    for user in (plain_feeds.user("here"), gone):
        followers.follow_feeds(user.pk, [feed.pk], NOW)
    gone.delete()
    turn = next(
        at
        for at in range(followers.COUNT_PASSES)
        if (NOW.timestamp() // 60 + at - feed.pk) % followers.COUNT_PASSES == 0
    )
    counted = [followers.recount_subscribers_in_turn(NOW + timedelta(minutes=at)) for at in (turn - 1, turn)]
    feed.refresh_from_db()
    assert (counted, feed.subscriber_count) == ([0, 1], 2)
