"""Public lists of feeds as OPML: their feeds, their categories, the addresses in them, and who may see follows."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from feeds import addresses as feed_addresses
from feeds import catalogue, followers, lifecycle, opml, views
from feeds.models import Feed, Move
from feeds.pages.query import PageQuery
from feeds.pages.work import describe_request
from feeds.parser.documents import FeedHead
from resources.tokens import auth
from resources.tokens.models import ApiToken
from tests.support import feed_rows

from .conftest import Workers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

SECRET = "s3cr3tTok3nOfThisFeed"


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


def read_list(client: Client, workers: Workers, address: str = "/feeds/all.opml") -> opml.FeedList:
    answer = client.get(address)
    if answer.status_code == 302:
        workers.work()
        answer = client.get(address)
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/x-opml; charset=utf-8")
    return opml.parse_opml(answer.content)


def addresses(found: opml.FeedList) -> list[str]:
    return [feed.address.url.removeprefix("http://testserver") for feed in found.subscriptions]


def ask(client: Client, user: str, token: ApiToken | None = None, **given: str) -> Any:
    headers = {"Authorization": f"Bearer {auth.issue_token(token).text}"} if token else given
    return client.get(f"/feeds/all.opml?followed-by={user}", headers=headers)


def test_a_list_has_the_feeds_by_their_addresses_here(client: Client, workers: Workers) -> None:
    said = FeedHead(title="Sea", link="https://sea.example.org/", subtitle="Ships & tides", language="en-us")
    sea, land = feed_rows.feed("sea", said=said), feed_rows.feed("land", title="My land")
    earth = feed_rows.category("earth", land)
    feed_rows.category("water", sea, parent=earth)

    found = read_list(client, workers)
    assert found.title == "All feeds"
    land_listed, sea_listed = found.subscriptions
    assert (land_listed.title, land_listed.categories) == ("My land", (("Earth",),))
    assert (sea_listed.title, sea_listed.categories) == ("Sea", (("Earth", "Water"),))
    assert (sea_listed.site, sea_listed.language) == ("https://sea.example.org/", "en-US")
    assert sea_listed.description == "Ships & tides"
    assert addresses(found) == ["/feeds/land.atom", "/feeds/sea.atom"]


def test_a_category_lists_its_feeds_and_those_below_it_under_itself_alone(client: Client, workers: Workers) -> None:
    sea, land = feed_rows.feed("sea"), feed_rows.feed("land")
    earth = feed_rows.category("earth", land)
    feed_rows.category("water", sea, parent=earth)
    feed_rows.category("other", land, feed_rows.feed("sky"))

    found = read_list(client, workers, "/feeds/category/earth.opml")
    assert addresses(found) == ["/feeds/land.atom", "/feeds/sea.atom"]
    assert [feed.categories for feed in found.subscriptions] == [(("Earth",),), (("Earth", "Water"),)]


def test_hidden_and_paused_feeds_are_on_no_list(client: Client, workers: Workers, ann: User) -> None:
    feeds = [feed_rows.feed("sea"), feed_rows.feed("hidden", is_hidden=True), feed_rows.feed("paused", paused=True)]
    feed_rows.category("earth", *feeds)
    followers.follow_feeds(ann.pk, [feed.pk for feed in feeds], datetime.now(UTC))

    for address in ("/feeds/all.opml", "/feeds/category/earth.opml"):
        assert addresses(read_list(client, workers, address)) == ["/feeds/sea.atom"]
    assert addresses(opml.parse_opml(ask(client, "ann", ApiToken(name="a", user=ann)).content)) == ["/feeds/sea.atom"]


@pytest.mark.parametrize("address", ["/feeds/all.opml", "/feeds/category/earth.opml", "/feeds/category/water.opml"])
def test_a_feed_that_is_added_is_on_the_list_before_its_first_fetch(
    client: Client, workers: Workers, address: str
) -> None:
    feed_rows.category("water", feed_rows.feed("sea"), parent=feed_rows.category("earth"))
    assert addresses(read_list(client, workers, address)) == ["/feeds/sea.atom"]
    added = feed_addresses.read_address("https://bay.example.org/feed")
    catalogue.add_feed(added, title="Bay", categories=[("Earth", "Water")], now=datetime.now(UTC))
    views._known_subjects.clear()
    client.get(address)  # the older list, while the new one is rendered
    workers.work()
    assert addresses(read_list(client, workers, address)) == ["/feeds/bay.atom", "/feeds/sea.atom"]


def test_a_feed_that_is_added_hidden_changes_no_list(client: Client, workers: Workers) -> None:
    feed_rows.feed("sea")
    first = read_list(client, workers)
    before = client.get("/feeds/all.opml")["ETag"]
    hidden = feed_addresses.read_address("https://me:secret@bay.example.org/feed")
    catalogue.add_feed(hidden, title="Bay", now=datetime.now(UTC))
    views._known_subjects.clear()
    client.get("/feeds/all.opml")
    workers.work()
    assert read_list(client, workers) == first
    assert client.get("/feeds/all.opml")["ETag"] == before


def test_a_feed_that_is_hidden_leaves_the_list_at_once(client: Client, workers: Workers) -> None:
    sea = feed_rows.feed("sea")
    assert addresses(read_list(client, workers)) == ["/feeds/sea.atom"]
    lifecycle.hide_feeds([sea.pk], datetime.now(UTC))
    views._known_subjects.clear()
    assert addresses(read_list(client, workers)) == []


def test_secrets_of_present_and_former_addresses_are_on_no_list(client: Client, workers: Workers) -> None:
    said = FeedHead(
        title=f"Sea {SECRET}", link=f"https://sea.example.org/?key={SECRET}", subtitle=f"Of {SECRET}, and old{SECRET}"
    )
    sea = feed_rows.feed("sea", said=said, url=f"https://sea.example.org/feed?token={SECRET}")
    old = f"https://sea.example.org/feed?token=old{SECRET}"
    Move.objects.create(feed=sea, old_url=old, new_url=sea.url, moved_at=datetime.now(UTC), why="")
    answer = client.get("/feeds/all.opml")
    assert answer.status_code == 302
    workers.work()
    written = client.get("/feeds/all.opml").content.decode()
    assert "/feeds/sea.atom" in written
    assert SECRET not in written
    assert "sea.example.org/feed" not in written


def test_a_list_is_not_sent_again_while_it_stays(client: Client, workers: Workers) -> None:
    feed_rows.feed("sea")
    read_list(client, workers)
    first = client.get("/feeds/all.opml")
    assert client.get("/feeds/all.opml", headers={"If-None-Match": first["ETag"]}).status_code == 304
    assert "public" in first["Cache-Control"]


@pytest.mark.parametrize(
    ("query", "place"), [("?q=x&limit=3", "/feeds/all.opml"), ("?utm_source=x", "/feeds/all.opml")]
)
def test_lists_have_no_other_parameters(client: Client, query: str, place: str) -> None:
    answer = client.get(f"/feeds/all.opml{query}")
    assert (answer.status_code, answer["Location"]) == (301, place)


@pytest.mark.parametrize("address", ["/feeds/sea.opml", "/feeds/category/none.opml", "/feeds/category/all.opml"])
def test_one_feed_is_no_list(client: Client, address: str) -> None:
    feed_rows.feed("sea")
    assert client.get(address).status_code == 404


def test_readers_of_lists_are_no_readers_of_feeds() -> None:
    counted = describe_request("/feeds/all.opml")
    assert counted is not None
    assert (counted.group, counted.noted) == ("opml", "")
    assert views._counted_query(counted.content_key) == PageQuery.read_path("/feeds/all.opml")


def test_a_token_lists_what_its_user_follows(client: Client, ann: User) -> None:
    sea, _ = feed_rows.feed("sea"), feed_rows.feed("land")
    followers.follow_feeds(ann.pk, [sea.pk], datetime.now(UTC))
    token = ApiToken(name="of ann", user=ann)
    found = ask(client, "ann", token)
    assert (found.status_code, found["Content-Type"]) == (200, "text/x-opml; charset=utf-8")
    assert addresses(opml.parse_opml(found.content)) == ["/feeds/sea.atom"]
    assert (found["Cache-Control"], found["Vary"]) == ("private, no-cache", "Authorization")

    text = auth.issue_token(ApiToken(name="of ann too", user=ann)).text
    again = {"Authorization": f"Bearer {text}", "If-None-Match": found["ETag"]}
    assert client.get("/feeds/all.opml?followed-by=ann", headers=again).status_code == 304
    feed_rows.category("earth", Feed.objects.get(slug="land"))
    assert client.get("/feeds/category/earth.opml?followed-by=ann", headers=again).content.count(b"xmlUrl") == 0


def test_tokens_that_manage_feeds_list_what_anybody_follows(client: Client, ann: User) -> None:
    followers.follow_feeds(ann.pk, [feed_rows.feed("sea").pk], datetime.now(UTC))
    manager = ApiToken(name="planet", may_manage_feeds=True)
    assert addresses(opml.parse_opml(ask(client, "ann", manager).content)) == ["/feeds/sea.atom"]
    assert ask(client, "nobody", ApiToken(name="other", may_manage_feeds=True)).status_code == 404


def test_follows_are_shown_to_nobody_else(client: Client, ann: User) -> None:
    bob = User.objects.create_user("bob")
    without = ask(client, "ann")
    assert (without.status_code, without["WWW-Authenticate"]) == (401, 'Bearer realm="Tarry"')
    assert ask(client, "ann", Authorization="Bearer tarry_wrong").status_code == 401
    for name in ("ann", "nobody"):
        assert ask(client, name, ApiToken(name=f"of bob for {name}", user=bob)).status_code == 403
        assert ask(client, name, ApiToken(name=f"of no user for {name}", may_mirror=True)).status_code == 403


@pytest.mark.parametrize(
    "query", ["followed-by=", "followed-by=ann&followed-by=bob", "followed-by=%00", "followed-by=a+b"]
)
def test_the_name_of_one_user_is_asked_for(client: Client, query: str) -> None:
    text = auth.issue_token(ApiToken(name="planet", may_manage_feeds=True)).text
    answer = client.get(f"/feeds/all.opml?{query}", headers={"Authorization": f"Bearer {text}"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")


def test_a_list_of_too_many_follows_is_refused(client: Client, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_LISTED_FOLLOWS", 1)
    feeds = [feed_rows.feed("sea"), feed_rows.feed("land")]
    followers.follow_feeds(ann.pk, [feed.pk for feed in feeds], datetime.now(UTC))
    assert ask(client, "ann", ApiToken(name="a", user=ann)).status_code == 422


def test_people_find_the_list_on_the_page_of_a_combination(client: Client, workers: Workers) -> None:
    feed_rows.feed("sea")
    client.get("/feeds/")
    workers.work()
    assert 'href="/feeds/all.opml"' in client.get("/feeds/").content.decode()
