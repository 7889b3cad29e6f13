"""Feeds that move and come back, that become one, or that are kept out of public pages."""

import json
from datetime import timedelta

import pytest
from django.test import Client

from feeds import addresses, catalogue, credentials, followers, lifecycle
from feeds import feed_rows as rows_of_feeds
from feeds.catalogue import FeedEdit
from feeds.errors import MoveError
from feeds.models import ALL_SLUG, Category, Entry, Feed, Move
from feeds.pages import render
from resources.tokens import auth
from resources.tokens.models import ApiToken
from retry.errors import PreparationError
from tests.conftest import RedisServers
from tests.support import feed_rows, plain_feeds
from tests.support.feed_rows import entry
from tests.support.plain_feeds import NOW

pytestmark = pytest.mark.django_db

NEW = "https://new.example/feed"
LATER = NOW + timedelta(hours=1)


def with_password(url: str) -> Feed:
    feed, _ = catalogue.add_feed(addresses.read_address(url.replace("://", "://me:secret@")), now=NOW)
    return feed


def test_a_feed_moves_and_is_found_under_its_new_address() -> None:
    feed = plain_feeds.feed("one", moving={"url": NEW}, next_check_at=LATER)
    assert lifecycle.try_move_feed(feed.pk, NEW, "It has moved.", NOW)
    feed.refresh_from_db()
    assert (feed.url, feed.host, feed.moving, feed.next_check_at) == (NEW, "new.example", {}, LATER)
    assert catalogue.add_feed(addresses.read_address(NEW), now=NOW) == (feed, False)
    assert Move.objects.get().old_url == "https://one.example/feed"


def test_a_move_onto_another_feed_is_none() -> None:
    feed, there = plain_feeds.feed("one"), plain_feeds.feed("two")
    assert not lifecycle.try_move_feed(feed.pk, there.url, "It has moved.", NOW)
    with pytest.raises(MoveError, match=r"“two”"):
        lifecycle.relocate_feed(feed.pk, there.url, "It has moved.", NOW)
    assert not Move.objects.exists()


def test_what_leads_nowhere_is_no_move_and_a_feed_that_is_gone_does_not_move() -> None:
    feed = plain_feeds.feed("one")
    for url in (feed.url, "ftp://one.example/", "https://0x7f.1/"):
        assert not lifecycle.try_move_feed(feed.pk, url, "It has moved.", NOW)
    assert not lifecycle.try_move_feed(0, NEW, "It has moved.", NOW)


def test_a_move_that_is_taken_back_is_not_made_again_by_itself() -> None:
    feed = plain_feeds.feed("one", next_check_at=LATER)
    lifecycle.try_move_feed(feed.pk, NEW, "It has moved.", NOW)
    assert lifecycle.undo_move(Move.objects.get().pk, NOW)
    feed.refresh_from_db()
    assert (feed.url, feed.refused_moves, feed.next_check_at) == ("https://one.example/feed", [NEW], NOW)
    assert not lifecycle.undo_move(Move.objects.get().pk, NOW)


def test_only_the_last_move_can_be_taken_back() -> None:
    feed = plain_feeds.feed("one")
    lifecycle.try_move_feed(feed.pk, NEW, "It has moved.", NOW)
    lifecycle.try_move_feed(feed.pk, "https://newer.example/", "And again.", LATER)
    newer, older = Move.objects.all()
    assert not lifecycle.undo_move(older.pk, LATER)
    assert lifecycle.undo_move(newer.pk, LATER)
    assert lifecycle.undo_move(older.pk, LATER)


def test_a_move_cannot_be_taken_back_when_another_feed_is_there_by_now() -> None:
    lifecycle.try_move_feed(plain_feeds.feed("one").pk, NEW, "It has moved.", NOW)
    plain_feeds.feed("one")
    with pytest.raises(MoveError):
        lifecycle.undo_move(Move.objects.get().pk, NOW)
    assert Move.objects.get().undone_at is None


@pytest.mark.parametrize("new", ["https://other.example/", "http://one.example/", "https://one.example:8443/"])
def test_a_password_stays_behind_and_is_there_again_after_coming_back(new: str) -> None:
    feed = with_password("https://one.example/feed")
    lifecycle.try_move_feed(feed.pk, new, "It has moved.", NOW)
    feed.refresh_from_db()
    assert credentials.request_headers(feed) == {}
    lifecycle.undo_move(Move.objects.get().pk, NOW)
    feed.refresh_from_db()
    assert credentials.unseal_password(feed) == "secret"
    assert catalogue.add_feed(addresses.read_address("https://me@one.example/feed"), now=NOW) == (feed, False)


@pytest.mark.parametrize(
    ("old", "new"),
    [("https://one.example/a", "https://one.example/b"), ("http://one.example/a", "https://one.example/a")],
)
def test_a_password_goes_along_where_the_server_is_the_same(old: str, new: str) -> None:
    feed = with_password(old)
    assert lifecycle.try_move_feed(feed.pk, new, "It has moved.", NOW)
    feed.refresh_from_db()
    assert (feed.url, feed.user, credentials.unseal_password(feed)) == (new, "me", "secret")


def test_what_the_new_server_is_shown_is_not_shown_to_the_old_one() -> None:
    feed = plain_feeds.feed("one")
    move = lifecycle.relocate_feed(feed.pk, NEW, "It has moved.", NOW)
    secrets = {"user": "me", "sealed_password": credentials.seal_password("secret")}
    Feed.objects.filter(pk=feed.pk).update(**secrets)
    assert lifecycle.undo_move(move.pk, LATER)
    feed.refresh_from_db()
    assert credentials.request_headers(feed) == {}


def test_entries_followers_categories_and_moves_of_all_are_kept_once() -> None:
    kept, other = plain_feeds.feed("one"), plain_feeds.feed("two")
    for feed in (kept, other):
        plain_feeds.entry(feed, "both")
    plain_feeds.entry(other, "old")
    one, two = plain_feeds.user("one"), plain_feeds.user("two")
    followers.follow_feeds(one.pk, [kept.pk, other.pk], NOW)
    followers.follow_feeds(two.pk, [other.pk], NOW)
    plain_feeds.category("news", other)
    lifecycle.try_move_feed(other.pk, "https://three.example/", "It has moved.", NOW)
    assert lifecycle.merge_feeds(kept.pk, [other.pk, kept.pk], NOW) == 1
    kept.refresh_from_db()
    assert Feed.objects.get() == kept
    assert sorted(kept.entries.values_list("title", flat=True)) == ["both", "old"]
    assert (kept.follows.count(), kept.subscriber_count, kept.moves.count()) == (2, 2, 1)
    assert [category.slug for category in kept.categories.all()] == ["news"]


def test_what_one_of_them_was_told_of_is_fetched_of_the_one_that_is_kept() -> None:
    kept, other = plain_feeds.feed("one"), plain_feeds.feed("two")
    lifecycle.merge_feeds(kept.pk, [plain_feeds.feed("three").pk], NOW)
    assert Feed.objects.get(pk=kept.pk).flagged_at is None
    Feed.objects.filter(pk=other.pk).update(flagged_at=NOW)
    lifecycle.merge_feeds(kept.pk, [other.pk], NOW)
    assert Feed.objects.get().flagged_at == NOW


def test_an_entry_that_has_another_id_in_each_is_kept_once() -> None:
    kept, other = plain_feeds.feed("one"), plain_feeds.feed("two")
    one, same = plain_feeds.entry(kept, "by guid"), plain_feeds.entry(other, "by atom id")
    Entry.objects.filter(pk=same.pk).update(likeness=one.likeness)
    lifecycle.merge_feeds(kept.pk, [other.pk], NOW)
    assert list(kept.entries.all()) == [one]


@pytest.mark.parametrize("paused", [True, False])
def test_output_changes_and_what_is_merged_into_a_paused_feed_is_shown_by_no_older_page(paused: bool) -> None:
    kept, other = plain_feeds.feed("one", paused=paused), plain_feeds.feed("two")
    news = plain_feeds.category("news", other)
    lifecycle.merge_feeds(kept.pk, [other.pk], NOW)
    kept.refresh_from_db()
    news.refresh_from_db()
    assert min(kept.version, news.version) > 0
    assert (news.least_version > 0) == paused


def test_nothing_is_merged_into_a_feed_that_is_gone() -> None:
    feed = plain_feeds.feed("one")
    assert lifecycle.merge_feeds(0, [feed.pk], NOW) == 0
    assert lifecycle.merge_feeds(feed.pk, [0, feed.pk], NOW) == 0
    assert Feed.objects.get() == feed


def test_feeds_are_deleted_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "FEEDS_PER_DELETION", 2)
    assert lifecycle.remove_feeds([plain_feeds.feed(f"f{number}").pk for number in range(5)], NOW) == 5
    assert not Feed.objects.exists()


@pytest.mark.parametrize("url", ["https://me:pw@blog.example/feed", "https://me@blog.example/feed"])
def test_a_feed_that_is_added_with_secrets_is_hidden(url: str) -> None:
    feed, _ = catalogue.add_feed(addresses.read_address(url), now=NOW)
    assert feed.is_hidden
    assert not catalogue.add_feed(addresses.read_address("https://open.example/feed"), now=NOW)[0].is_hidden


@pytest.mark.parametrize("page", ["/feeds/all.atom", "/feeds/category/news.json", "/feeds/"])
def test_it_is_in_no_combination(page: str) -> None:
    covert, plain = feed_rows.feed("covert", entry(1, title="Covert")), feed_rows.feed("plain", entry(2, title="Plain"))
    news = feed_rows.category("news", covert, plain)
    lifecycle.hide_feeds([covert.pk], NOW)
    (made,) = render.prepare_page(page).values()
    assert b"Plain" in made.body
    assert b"Covert" not in made.body
    assert b"covert" not in made.body
    everything = Category.objects.get(slug=ALL_SLUG)
    news.refresh_from_db()
    assert min(news.least_version, everything.least_version) > 0  # pages rendered with it are never shown


@pytest.mark.parametrize("end", [".atom", ".rss", ".json", "/"])
def test_it_has_no_pages(client: Client, redis_servers: RedisServers, end: str) -> None:
    row = feed_rows.feed("covert", entry(1), is_hidden=True)
    rows_of_feeds.remember_slugs(["former"], row.pk)
    assert client.get(f"/feeds/covert{end}").status_code == 404
    assert client.get(f"/feeds/former{end}").status_code == 404
    with pytest.raises(PreparationError):
        render.prepare_page(f"/feeds/covert{end}")


def test_secrets_that_are_given_hide_it_unless_people_say_otherwise() -> None:
    row, address = (
        feed_rows.feed("blog", is_hidden=False),
        addresses.address_with_user("https://blog.example.org/feed", "me", "pw"),
    )
    catalogue.edit_feed(row.pk, FeedEdit(address, None, {"is_hidden": False}), NOW)
    row.refresh_from_db()
    assert credentials.is_private(row)
    assert not row.is_hidden
    catalogue.edit_feed(row.pk, FeedEdit(address, {"X-Key": "k"}, {}), NOW)
    row.refresh_from_db()
    assert not row.is_hidden  # it was said before
    other = feed_rows.feed("other")
    catalogue.edit_feed(other.pk, FeedEdit(addresses.FeedLocation(other.url), {"X-Key": "k"}, {}), NOW)
    other.refresh_from_db()
    assert other.is_hidden


def test_what_a_hidden_one_is_merged_into_is_hidden() -> None:
    kept, other = feed_rows.feed("kept"), feed_rows.feed("other", entry(1), is_hidden=True)
    lifecycle.merge_feeds(kept.pk, [other.pk], NOW)
    assert Feed.objects.get().is_hidden


def test_the_api_has_it_for_those_who_manage(client: Client, redis_servers: RedisServers) -> None:
    feed_rows.feed("covert", entry(1), is_hidden=True)
    token = auth.issue_token(ApiToken(name="planet", may_manage_feeds=True)).text
    ways = ["/api/feeds/covert", "/api/feeds/covert/entries", "/api/feeds/covert/health"]
    managing = {"Authorization": f"Bearer {token}"}
    assert {client.get(way).status_code for way in ways} == {404}
    assert {client.get(way, headers=managing).status_code for way in ways} == {200}
    assert client.get("/api/feeds").json()["feeds"] == []
    assert [one["hidden"] for one in client.get("/api/feeds", headers=managing).json()["feeds"]] == [True]
    shown = client.patch("/api/feeds/covert", json.dumps({"hidden": False}), "application/json", headers=managing)
    assert shown.json()["hidden"] is False
    assert client.get("/api/feeds/covert").status_code == 200
