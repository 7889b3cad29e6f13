"""Who follows what, and what that makes of the number of subscribers."""

from datetime import timedelta

import pytest

from feeds.keeping import following
from feeds.models import Follow
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db


def test_a_feed_is_followed_once_and_counted_with_its_readers() -> None:
    feed, user = rows.feed("one", reader_count=3), rows.user("me")
    assert following.follow(user.pk, [feed.pk], NOW) == 1
    assert following.follow(user.pk, [feed.pk], NOW) == 0
    feed.refresh_from_db()
    assert feed.subscriber_count == 4


def test_a_feed_that_nobody_follows_any_more_has_its_readers() -> None:
    feed, other = rows.feed("one", reader_count=3), rows.feed("two")
    me, you = rows.user("me"), rows.user("you")
    for user in (me, you):
        following.follow(user.pk, [feed.pk, other.pk], NOW)
    assert following.unfollow(me.pk, [feed.pk]) == 1
    assert following.unfollow(you.pk, [feed.pk]) == 1
    feed.refresh_from_db()
    other.refresh_from_db()
    assert (feed.subscriber_count, other.subscriber_count) == (3, 2)


def test_feeds_that_are_gone_are_not_followed() -> None:
    assert following.follow(rows.user("me").pk, [1, 2], NOW) == 0
    assert not Follow.objects.exists()


def test_users_who_are_deleted_are_counted_no_more_after_a_day() -> None:
    feed, gone = rows.feed("one", reader_count=1), rows.user("gone")
    for user in (rows.user("here"), gone):
        following.follow(user.pk, [feed.pk], NOW)
    gone.delete()
    turn = next(at for at in range(following.TURNS) if (NOW.timestamp() // 60 + at - feed.pk) % following.TURNS == 0)
    counted = [following.recount_in_turn(NOW + timedelta(minutes=at)) for at in (turn - 1, turn)]
    feed.refresh_from_db()
    assert (counted, feed.subscriber_count) == ([0, 1], 2)
