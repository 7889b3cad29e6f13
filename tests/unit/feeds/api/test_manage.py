"""Managing feeds by the API."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from feeds import feed_rows, filters
from feeds.models import Category, EntryFilter, Feed, Follow, Move, Supplement
from tests.support.feed_rows import NOW, add, category, feed
from tests.support.feed_rows import entry as new_entry
from tests.unit.resources.api.conftest import Caller, problem


def send(caller: Caller, method: str, path: str, body: object = None) -> Any:
    headers = {"Authorization": f"Bearer {caller.token}"} if caller.token else {}
    text = json.dumps(body) if body is not None else ""
    return caller.client.generic(method, path, text, content_type="application/json", headers=headers)


def test_a_feed_is_added_flagged_and_in_its_categories(manager: Caller) -> None:
    answer = send(manager, "POST", "/api/feeds", {"url": "https://blog.example/feed", "categories": [["News", "Tech"]]})
    assert answer.status_code == 201, answer.content
    assert answer.json()["categories"] == [["News", "Tech"]]
    row = Feed.objects.get()
    assert row.url == answer.json()["url"] == "https://blog.example/feed"
    assert row.flagged_at is not None
    assert Category.objects.get(slug="tech").version > 0


def test_a_feed_that_is_there_is_answered_and_left_as_it_is(manager: Caller) -> None:
    first = send(manager, "POST", "/api/feeds", {"url": "https://blog.example/feed", "title": "A blog"}).json()
    version = Feed.objects.get().version
    again = send(manager, "POST", "/api/feeds", {"url": "http://BLOG.example/feed", "title": "Another"})
    assert again.status_code == 200
    assert (again.json()["slug"], again.json()["title"]) == (first["slug"], "A blog")
    assert Feed.objects.get().version == version


@pytest.mark.parametrize(
    "wanted",
    [
        {"url": "javascript:alert(1)"},
        {"url": "nothing"},
        {"url": "https://ok.example/" + "x" * 2000},
        {"url": "https://ok.example/", "categories": [[]]},
        {"url": "https://ok.example/", "colour": "red"},
        {},
        [],
        "text",
    ],
)
def test_what_is_no_feed_is_refused(manager: Caller, wanted: object) -> None:
    problem(send(manager, "POST", "/api/feeds", wanted), 422)
    assert not Feed.objects.exists()


def test_a_feed_is_renamed_bounded_and_paused(manager: Caller) -> None:
    row = feed("blog")
    news = category("news", row)
    answer = send(manager, "PATCH", "/api/feeds/blog", {"title": "Mine", "least_seconds": 3600, "paused": True})
    assert answer.status_code == 200, answer.content
    assert (answer.json()["title"], answer.json()["standing"]) == ("Mine", "paused")
    row.refresh_from_db()
    assert (row.least_seconds, row.paused) == (3600, True)
    assert Category.objects.get(pk=news.pk).version > news.version


def test_a_bound_is_taken_back_by_null_and_kept_where_nothing_is_said(manager: Caller) -> None:
    row = feed("blog", least_seconds=3600, most_seconds=7200)
    send(manager, "PATCH", "/api/feeds/blog", {"most_seconds": None})
    row.refresh_from_db()
    assert (row.least_seconds, row.most_seconds) == (3600, None)


def test_bounds_that_contradict_each_other_are_refused(manager: Caller) -> None:
    feed("blog", most_seconds=3600)
    assert "must not be above most_seconds" in problem(
        send(manager, "PATCH", "/api/feeds/blog", {"least_seconds": 7200}), 422
    )
    assert Feed.objects.get().least_seconds is None


def test_a_feed_that_is_removed_leaves_its_combinations(manager: Caller) -> None:
    news = category("news", feed("blog"))
    assert send(manager, "DELETE", "/api/feeds/blog").status_code == 200
    assert not Feed.objects.exists()
    assert Category.objects.get(pk=news.pk).version > news.version
    problem(send(manager, "DELETE", "/api/feeds/blog"), 404)


def test_a_feed_is_flagged_unless_it_is_paused(manager: Caller) -> None:
    feed("blog")
    feed("quiet", paused=True)
    assert send(manager, "POST", "/api/feeds/blog/fetch").status_code == 202
    assert Feed.objects.get(slug="blog").flagged_at is not None
    assert "paused" in problem(send(manager, "POST", "/api/feeds/quiet/fetch"), 409)


def test_a_feed_is_followed_once_and_no_more(follower: Caller, ann: User) -> None:
    row = feed("blog")
    for _ in range(2):
        assert send(follower, "PUT", "/api/feeds/blog/follow").status_code == 200
    assert list(Follow.objects.values_list("user", "feed")) == [(ann.pk, row.pk)]
    assert Feed.objects.get().subscriber_count == 1
    assert send(follower, "DELETE", "/api/feeds/blog/follow").status_code == 200
    assert not Follow.objects.exists()
    assert Feed.objects.get().subscriber_count == 0


def test_a_title_has_what_databases_keep(manager: Caller) -> None:
    feed("blog")
    answer = send(manager, "PATCH", "/api/feeds/blog", {"title": "A\0 blog"})
    assert (answer.status_code, answer.json()["title"]) == (200, "A blog")


def test_a_former_slug_is_read_and_never_changed(manager: Caller, anybody: Caller) -> None:
    row = feed("kept")
    feed_rows.remember_slugs(["merged"], row.pk)
    for path in ("", "/health", "/entries"):
        assert anybody.get(f"/api/feeds/merged{path}").status_code == 200
    assert anybody.get("/api/feeds/merged").json()["slug"] == "kept"
    assert "“kept” now" in problem(send(manager, "DELETE", "/api/feeds/merged"), 404)
    problem(send(manager, "PATCH", "/api/feeds/merged", {"title": "x"}), 404)
    assert Feed.objects.get().title != "x"


CALLS = [
    ("POST", "/api/feeds"),
    ("PATCH", "/api/feeds/blog"),
    ("DELETE", "/api/feeds/blog"),
    ("POST", "/api/feeds/blog/fetch"),
    ("PUT", "/api/feeds/blog/follow"),
    ("DELETE", "/api/feeds/blog/follow"),
]


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_managing_needs_a_token(anybody: Caller, method: str, path: str) -> None:
    feed("blog")
    problem(send(anybody, method, path, {"url": "https://other.example/"}), 401)


@pytest.mark.parametrize(("method", "path"), CALLS[:4])
def test_managing_needs_a_token_that_may(follower: Caller, method: str, path: str) -> None:
    feed("blog")
    body = {"url": "https://other.example/"} if path == "/api/feeds" else {}
    assert "may not manage feeds" in problem(send(follower, method, path, body), 403)
    assert Feed.objects.count() == 1


def test_following_needs_a_token_of_somebody(manager: Caller) -> None:
    feed("blog")
    assert "has no user" in problem(send(manager, "PUT", "/api/feeds/blog/follow"), 403)


def test_narrower_bounds_hold_for_the_next_check(manager: Caller) -> None:
    now = datetime.now(UTC)
    feed("blog", checked_at=now, next_check_at=now + timedelta(days=1))
    send(manager, "PATCH", "/api/feeds/blog", {"most_seconds": 3600})
    assert Feed.objects.get().next_check_at == now + timedelta(hours=1)
    send(manager, "PATCH", "/api/feeds/blog", {"least_seconds": 7200, "most_seconds": None})
    assert Feed.objects.get().next_check_at == now + timedelta(hours=2)


def test_bounds_change_nothing_of_how_long_a_failure_is_left_alone(manager: Caller) -> None:
    later = datetime.now(UTC) + timedelta(days=3)
    feed("blog", state="failing", next_check_at=later)
    send(manager, "PATCH", "/api/feeds/blog", {"most_seconds": 3600})
    assert Feed.objects.get().next_check_at == later


def test_full_articles_are_switched_on_and_off(manager: Caller, anybody: Caller) -> None:
    row = feed("blog")
    made = add(row, new_entry(1, content="Cut…"))
    add(row, new_entry(2, link=""))
    add(row, new_entry(3, content="All of it. " * 500))
    assert fetched(anybody, "/api/feeds/blog")["full_content"] is False
    answer = send(manager, "PATCH", "/api/feeds/blog", {"full_content": True})
    assert answer.json()["full_content"] is True
    (wanted,) = Supplement.objects.filter(kind="article")
    assert (wanted.entry_id, wanted.url, wanted.mark) == (made.pk, made.link, made.content)
    assert wanted.due_at is not None
    assert send(manager, "PATCH", "/api/feeds/blog", {"full_content": None}).json()["full_content"] is True
    assert send(manager, "PATCH", "/api/feeds/blog", {"full_content": False}).json()["full_content"] is False
    problem(send(manager, "PATCH", "/api/feeds/blog", {"full_content": "yes"}), 422)


def test_a_feed_is_added_with_full_articles_and_a_known_one_stays_as_it_is(manager: Caller) -> None:
    for name, given in (("with", {"full_content": True}), ("without", {"full_content": False}), ("silent", {})):
        wanted = {"url": f"https://{name}.example/feed", **given}
        answer = send(manager, "POST", "/api/feeds", wanted)
        assert (answer.status_code, answer.json()["full_content"]) == (201, name == "with")
        again = send(manager, "POST", "/api/feeds", {**wanted, "full_content": name != "with"})
        assert (again.status_code, again.json()["full_content"]) == (200, name == "with")
    assert list(Feed.objects.filter(full_content=True).values_list("url", flat=True)) == ["https://with.example/feed"]
    for wrong in ("yes", None):
        sent = send(manager, "POST", "/api/feeds", {"url": "https://else.example/", "full_content": wrong})
        assert "full_content" in problem(sent, 422)


def test_the_description_names_full_articles_where_feeds_are_added_and_changed(anybody: Caller) -> None:
    schemas = fetched(anybody, "/api/openapi.json")["components"]["schemas"]
    assert schemas["ToAdd"]["properties"]["full_content"]["type"] == "boolean"
    assert "full_content" in schemas["ToChange"]["properties"]


def test_the_icon_is_the_address_at_which_this_site_mirrors_it(anybody: Caller) -> None:
    row = feed("blog")
    assert fetched(anybody, "/api/feeds/blog")["icon"] is None
    Feed.objects.filter(pk=row.pk).update(icon="https://blog.example/icon.png")
    assert fetched(anybody, "/api/feeds/blog")["icon"].startswith("http://testserver/resources/")
    token = "a1b2c3d4e5f6a7b8c9d0"
    secret = {"url": f"https://blog.example/{token}/feed", "icon": f"https://blog.example/{token}.png"}
    Feed.objects.filter(pk=row.pk).update(**secret)
    assert fetched(anybody, "/api/feeds/blog")["icon"] is None, "a part of the feed's address may be a secret"
    Feed.objects.filter(pk=row.pk).update(url="https://blog.example/feed")
    assert fetched(anybody, "/api/feeds/blog")["icon"] is not None
    moved = {"old_url": secret["url"], "new_url": "https://blog.example/feed", "why": "", "moved_at": datetime.now(UTC)}
    Move.objects.create(feed=row, **moved)
    assert fetched(anybody, "/api/feeds/blog")["icon"] is None, "and so may be a part of a former one"


def fetched(caller: Caller, path: str) -> Any:
    return send(caller, "GET", path).json()


def test_filters_of_a_feed_are_set_replaced_and_shown_to_managers(manager: Caller, anybody: Caller) -> None:
    wanted = {"url": "https://sea.example/feed", "filters": [{"words": "tag:ad"}]}
    slug = send(manager, "POST", "/api/feeds", wanted).json()["slug"]
    sea = Feed.objects.get()
    for number, title in enumerate(("Whales", "Terns", "Ad: buy")):
        add(sea, new_entry(number, title=title))
    rules = [{"action": "only", "pattern": "^(whales|ad)", "field": "title"}, {"words": "buy"}]
    answer = send(manager, "PATCH", f"/api/feeds/{slug}", {"filters": rules})
    empty = {"action": "hide", "words": "", "pattern": "", "field": ""}
    assert answer.json()["filters"] == [{**empty, **rule} for rule in rules]
    filters.judge_waiting(NOW)
    found = anybody.get(f"/api/feeds/{slug}/entries").json()["entries"]
    assert [one["title"] for one in found] == ["Whales"]
    assert anybody.get(f"/api/feeds/{slug}").json()["filters"] is None
    send(manager, "PATCH", f"/api/feeds/{slug}", {"title": "Sea"})
    assert EntryFilter.objects.count() == 2
    again = send(manager, "POST", "/api/feeds", {**wanted, "filters": []})
    assert (again.status_code, len(again.json()["filters"])) == (200, 2)
    assert send(manager, "PATCH", f"/api/feeds/{slug}", {"filters": []}).json()["filters"] == []
    filters.judge_waiting(NOW)
    assert len(anybody.get(f"/api/feeds/{slug}/entries").json()["entries"]) == 3


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{"words": "sea"}, {"pattern": "a(b"}], "filters.1.pattern: This is no regular expression of RE2: missing )"),
        ([{"words": "feed:sea"}], "filters.0.words: Filters take no feed: terms."),
        ([{"words": "a" * 201}], "200 characters"),
        ([{"pattern": "a", "field": "body"}], "title"),
        ([{"action": "show", "words": "a"}], "hide"),
        ([{"words": "a", "colour": "red"}], "colour"),
        ([{"words": "a"}] * 21, "20 items"),
        ([{"words": "\ud800"}], "unable to parse raw data as a unicode string"),
        ([{"words": "\0"}], "either words or a pattern"),
        ({}, "list"),
    ],
)
def test_filters_that_cannot_be_change_nothing(manager: Caller, rules: object, message: str) -> None:
    sea = feed("sea")
    assert message in problem(send(manager, "PATCH", "/api/feeds/sea", {"title": "Other", "filters": rules}), 422)
    problem(send(manager, "POST", "/api/feeds", {"url": "https://new.example/", "filters": rules}), 422)
    assert (Feed.objects.get().title, EntryFilter.objects.count()) == (sea.title, 0)
