"""Feeds that are kept out of public pages."""

import json

import pytest
from django.test import Client

from feeds import addresses, catalogue, credentials, lifecycle, slugs
from feeds.catalogue import FeedEdit
from feeds.models import ALL_SLUG, Category, Feed
from feeds.pages import render
from resources.tokens import auth
from resources.tokens.models import ApiToken
from retry.errors import PreparationError
from tests.conftest import RedisServers
from tests.support import feed_rows
from tests.support.feed_rows import NOW, entry

pytestmark = pytest.mark.django_db


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
    slugs.remember_slugs(["former"], row.pk)
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
