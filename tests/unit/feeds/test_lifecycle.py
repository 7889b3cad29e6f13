"""Feeds that get another address, and back."""

from datetime import timedelta

import pytest

from feeds import addresses
from feeds.errors import MoveError
from feeds.keeping import adding, credentials, moves
from feeds.models import Feed, Move
from tests.feeds.keeping import rows
from tests.feeds.keeping.rows import NOW

pytestmark = pytest.mark.django_db

NEW = "https://new.example/feed"
LATER = NOW + timedelta(hours=1)


def with_password(url: str) -> Feed:
    feed, _ = adding.add(addresses.read(url.replace("://", "://me:secret@")), now=NOW)
    return feed


def test_a_feed_moves_and_is_found_under_its_new_address() -> None:
    feed = rows.feed("one", moving={"url": NEW}, next_check_at=LATER)
    assert moves.move(feed.pk, NEW, "It has moved.", NOW)
    feed.refresh_from_db()
    assert (feed.url, feed.host, feed.moving, feed.next_check_at) == (NEW, "new.example", {}, LATER)
    assert adding.add(addresses.read(NEW), now=NOW) == (feed, False)
    assert Move.objects.get().old_url == "https://one.example/feed"


def test_a_move_onto_another_feed_is_none() -> None:
    feed, there = rows.feed("one"), rows.feed("two")
    assert not moves.move(feed.pk, there.url, "It has moved.", NOW)
    with pytest.raises(MoveError, match=r"“two”"):
        moves.relocate(feed.pk, there.url, "It has moved.", NOW)
    assert not Move.objects.exists()


@pytest.mark.parametrize("url", ["https://one.example/feed", "ftp://one.example/", "https://0x7f.1/"])
def test_what_leads_nowhere_is_no_move(url: str) -> None:
    assert not moves.move(rows.feed("one").pk, url, "It has moved.", NOW)


def test_a_feed_that_is_gone_does_not_move() -> None:
    assert not moves.move(0, NEW, "It has moved.", NOW)


def test_a_move_that_is_taken_back_is_not_made_again_by_itself() -> None:
    feed = rows.feed("one", next_check_at=LATER)
    moves.move(feed.pk, NEW, "It has moved.", NOW)
    assert moves.undo(Move.objects.get().pk, NOW)
    feed.refresh_from_db()
    assert (feed.url, feed.refused_moves, feed.next_check_at) == ("https://one.example/feed", [NEW], NOW)
    assert not moves.undo(Move.objects.get().pk, NOW)


def test_only_the_last_move_can_be_taken_back() -> None:
    feed = rows.feed("one")
    moves.move(feed.pk, NEW, "It has moved.", NOW)
    moves.move(feed.pk, "https://newer.example/", "And again.", LATER)
    newer, older = Move.objects.all()
    assert not moves.undo(older.pk, LATER)
    assert moves.undo(newer.pk, LATER)
    assert moves.undo(older.pk, LATER)


def test_a_move_cannot_be_taken_back_when_another_feed_is_there_by_now() -> None:
    moves.move(rows.feed("one").pk, NEW, "It has moved.", NOW)
    rows.feed("one")
    with pytest.raises(MoveError):
        moves.undo(Move.objects.get().pk, NOW)
    assert Move.objects.get().undone_at is None


@pytest.mark.parametrize("new", ["https://other.example/", "http://one.example/", "https://one.example:8443/"])
def test_a_password_stays_behind_and_is_there_again_after_coming_back(new: str) -> None:
    feed = with_password("https://one.example/feed")
    moves.move(feed.pk, new, "It has moved.", NOW)
    feed.refresh_from_db()
    assert credentials.shown_to_server(feed) == {}
    moves.undo(Move.objects.get().pk, NOW)
    feed.refresh_from_db()
    assert credentials.password_of(feed) == "secret"
    assert adding.add(addresses.read("https://me@one.example/feed"), now=NOW) == (feed, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [("https://one.example/a", "https://one.example/b"), ("http://one.example/a", "https://one.example/a")],
)
def test_a_password_goes_along_where_the_server_is_the_same(old: str, new: str) -> None:
    feed = with_password(old)
    assert moves.move(feed.pk, new, "It has moved.", NOW)
    feed.refresh_from_db()
    assert (feed.url, feed.user, credentials.password_of(feed)) == (new, "me", "secret")


def test_what_the_new_server_is_shown_is_not_shown_to_the_old_one() -> None:
    feed = rows.feed("one")
    move = moves.relocate(feed.pk, NEW, "It has moved.", NOW)
    secrets = {"user": "me", "sealed_password": credentials.sealed_password("secret")}
    Feed.objects.filter(pk=feed.pk).update(**secrets)
    assert moves.undo(move.pk, LATER)
    feed.refresh_from_db()
    assert credentials.shown_to_server(feed) == {}
