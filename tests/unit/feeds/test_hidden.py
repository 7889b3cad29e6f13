"""Feeds that are kept out of what is public."""

import json

import pytest
from django.test import Client

from feeds import addresses
from feeds.composing import pages
from feeds.keeping import adding, aliases, credentials, editing, merging, pausing
from feeds.keeping.editing import Edit
from feeds.models import ALL, Category, Feed
from resources.api import tokens
from resources.api.models import ApiToken
from retry.errors import PreparationError
from tests.conftest import RedisServers
from tests.feeds import rows
from tests.feeds.rows import NOW, entry

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("url", ["https://me:pw@blog.example/feed", "https://me@blog.example/feed"])
def test_a_feed_that_is_added_with_secrets_is_hidden(url: str) -> None:
    feed, _ = adding.add(addresses.read(url), now=NOW)
    assert feed.is_hidden
    assert not adding.add(addresses.read("https://open.example/feed"), now=NOW)[0].is_hidden


@pytest.mark.parametrize("page", ["/feeds/all.atom", "/feeds/category/news.json", "/feeds/"])
def test_it_is_in_no_combination(page: str) -> None:
    covert, plain = rows.feed("covert", entry(1, title="Covert")), rows.feed("plain", entry(2, title="Plain"))
    news = rows.category("news", covert, plain)
    pausing.hide([covert.pk], NOW)
    (made,) = pages.prepared(page).values()
    assert b"Plain" in made.body
    assert b"Covert" not in made.body
    assert b"covert" not in made.body
    everything = Category.objects.get(slug=ALL)
    news.refresh_from_db()
    assert min(news.least_version, everything.least_version) > 0  # what was rendered with it is shown to nobody


@pytest.mark.parametrize("end", [".atom", ".rss", ".json", "/"])
def test_it_has_no_pages(client: Client, redis_servers: RedisServers, end: str) -> None:
    row = rows.feed("covert", entry(1), is_hidden=True)
    aliases.remember(["former"], row.pk)
    assert client.get(f"/feeds/covert{end}").status_code == 404
    assert client.get(f"/feeds/former{end}").status_code == 404
    with pytest.raises(PreparationError):
        pages.prepared(f"/feeds/covert{end}")


def test_secrets_that_are_given_hide_it_unless_people_say_otherwise() -> None:
    row, address = rows.feed("blog", is_hidden=False), addresses.with_user("https://blog.example.org/feed", "me", "pw")
    editing.edit(row.pk, Edit(address, None, {"is_hidden": False}), NOW)
    row.refresh_from_db()
    assert credentials.is_private(row)
    assert not row.is_hidden
    editing.edit(row.pk, Edit(address, {"X-Key": "k"}, {}), NOW)
    row.refresh_from_db()
    assert not row.is_hidden  # it was said before
    other = rows.feed("other")
    editing.edit(other.pk, Edit(addresses.Address(other.url), {"X-Key": "k"}, {}), NOW)
    other.refresh_from_db()
    assert other.is_hidden


def test_what_a_hidden_one_is_merged_into_is_hidden() -> None:
    kept, other = rows.feed("kept"), rows.feed("other", entry(1), is_hidden=True)
    merging.merge(kept.pk, [other.pk], NOW)
    assert Feed.objects.get().is_hidden


def test_the_api_has_it_for_those_who_manage(client: Client, redis_servers: RedisServers) -> None:
    rows.feed("covert", entry(1), is_hidden=True)
    token = tokens.issue(ApiToken(name="planet", may_manage_feeds=True)).text
    ways = ["/api/feeds/covert", "/api/feeds/covert/entries", "/api/feeds/covert/health"]
    managing = {"Authorization": f"Bearer {token}"}
    assert {client.get(way).status_code for way in ways} == {404}
    assert {client.get(way, headers=managing).status_code for way in ways} == {200}
    assert client.get("/api/feeds").json()["feeds"] == []
    assert [one["hidden"] for one in client.get("/api/feeds", headers=managing).json()["feeds"]] == [True]
    shown = client.patch("/api/feeds/covert", json.dumps({"hidden": False}), "application/json", headers=managing)
    assert shown.json()["hidden"] is False
    assert client.get("/api/feeds/covert").status_code == 200
