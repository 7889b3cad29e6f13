"""Feeds in the API."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from feeds import feed_rows, health, lifecycle
from feeds.api import read
from feeds.errors import SearchTimeoutError
from feeds.models import Entry, Feed
from feeds.pages import entry_search
from feeds.schedule import next_check
from feeds.schedule.next_check import CheckCircumstances
from feeds.schedule.state import FeedStatus, trouble_of
from resources.fetch.http.messages import Failure, FetchFailed, OutcomeTiming
from tests.support import plain_feeds
from tests.support.feed_rows import NOW, add, category, entry, feed
from tests.unit.resources.api.conftest import Caller, problem


def listed(caller: Caller, path: str) -> list[str]:
    return [one["slug"] for one in get(caller, path)["feeds"]]


def get(caller: Caller, path: str) -> Any:
    answer = caller.get(path)
    assert answer.status_code == 200, answer.content
    return answer.json()


def pages_from(caller: Caller, path: str) -> Iterator[Any]:
    """That page, and those to which it leads."""
    while path:
        page = get(caller, path)
        yield page
        path = (page["next"] or "").removeprefix("http://testserver")


def test_pages_of_feeds_lead_through_all_of_them(anybody: Caller) -> None:
    for name in "abcde":
        feed(name)
    pages = [[one["slug"] for one in page["feeds"]] for page in pages_from(anybody, "/api/feeds?limit=2")]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]


def test_a_category_has_the_feeds_of_those_below_it_once(anybody: Caller) -> None:
    one, other = feed("one"), feed("other")
    feed("elsewhere")
    news = category("news", one)
    category("tech", one, other, parent=news)
    assert listed(anybody, "/api/feeds?category=news") == ["one", "other"]
    assert "no category" in problem(anybody.get("/api/feeds?category=nothing"), 404)


def test_feeds_are_listed_by_how_they_stand(anybody: Caller) -> None:
    feed("well")
    feed("failing", state=FeedStatus.FAILING.value)
    feed("paused", paused=True)
    assert listed(anybody, "/api/feeds?standing=failing") == ["failing"]
    assert listed(anybody, "/api/feeds?standing=paused") == ["paused"]
    problem(anybody.get("/api/feeds?standing=happy"), 422)


def test_addresses_are_shown_to_those_alone_who_manage_feeds(anybody: Caller, manager: Caller) -> None:
    feed("secret", url="https://secret.example/feed?token=abc")
    assert get(anybody, "/api/feeds/secret")["url"] is None
    assert get(manager, "/api/feeds/secret")["url"] == "https://secret.example/feed?token=abc"
    assert b"abc" not in anybody.get("/api/feeds").content


def test_a_token_that_is_not_in_force_is_told_so(manager: Caller) -> None:
    problem(Caller("tarry_none").get("/api/feeds"), 401)


def test_health_says_how_the_last_fetches_went_and_why_to_those_who_manage(anybody: Caller, manager: Caller) -> None:
    row = feed("blog", state=FeedStatus.FAILING.value, trouble="TIMEOUT", failures=3, failing_since=NOW)
    plain_feeds.timing(row, 1.5)
    found = get(anybody, "/api/feeds/blog/health")
    shown = [found[name] for name in ("standing", "trouble", "failures", "why")]
    assert shown == ["failing", "timeout", 3, []]  # the reasons may name addresses
    assert get(manager, "/api/feeds/blog/health")["why"]
    assert [one["seconds"] for one in found["fetches"]] == [1.5]


@pytest.mark.parametrize("failure", [Failure.REFUSED, Failure.OURS])
def test_nobody_is_told_of_addresses_of_a_private_network(manager: Caller, failure: Failure) -> None:
    row = feed("blog")
    failed = FetchFailed(failure, "blog.example: 10.1.2.3 is not global (private)", OutcomeTiming(NOW.timestamp(), 0))
    decision = next_check.decide_next_check(feed_rows.read_feed_state(row), failed, (), CheckCircumstances(NOW))
    trouble = trouble_of(failed).name
    Feed.objects.update(**feed_rows.decision_fields(decision), trouble=trouble)
    assert "10.1.2.3" in Feed.objects.get().reason  # for the admin
    found = get(manager, "/api/feeds/blog/health")
    assert "10.1.2.3" not in json.dumps(found)
    assert found["why"][1] == health.PUBLIC_REASONS[trouble]


def titles(caller: Caller, query: str = "") -> list[list[str]]:
    """The titles of the entries of all pages."""
    pages = pages_from(caller, f"/api/feeds/blog/entries{query}")
    return [[one["title"] for one in page["entries"]] for page in pages]


def test_entries_come_in_pages_newest_first(anybody: Caller) -> None:
    feed("blog", *(entry(number) for number in range(5)))
    assert titles(anybody, "?limit=2") == [["Entry 4", "Entry 3"], ["Entry 2", "Entry 1"], ["Entry 0"]]


def test_a_search_that_takes_too_long_is_a_problem(anybody: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def take_long(*_: object) -> None:
        raise SearchTimeoutError("The search takes too long.")

    monkeypatch.setattr(entry_search, "find_matches", take_long)
    feed("blog", entry(1))
    assert anybody.get("/api/search?q=text").status_code == 503


def test_a_search_finds_entries_of_all_feeds_and_names_them(anybody: Caller) -> None:
    category("near", feed("blog", entry(1, title="Of cats")), feed("log", entry(2), entry(3, title="A cat")))
    feed("other", entry(4, title="Cats"))
    feed("secret", entry(5, title="Cats"), is_hidden=True)
    feed("still", entry(6, title="Cats"), paused=True)
    assert found_in(anybody, "/api/search?q=cats&limit=1") == [[("other", "Cats")], [("blog", "Of cats")]]
    assert found_in(anybody, "/api/search?q=cat*&category=near") == [[("log", "A cat"), ("blog", "Of cats")]]
    assert found_in(anybody, "/api/search?q=cat*+-feed:log&order=rank&limit=1") == [
        [("other", "Cats")],
        [("blog", "Of cats")],
    ]
    assert titles(anybody, "?q=title:of") == [["Of cats"]]


def found_in(caller: Caller, path: str) -> list[list[tuple[str, str]]]:
    """The feeds and titles of the entries of all pages."""
    return [[(one["feed"], one["title"]) for one in page["entries"]] for page in pages_from(caller, path)]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        *(("", 422), ("?q=cats&category=none", 404), ("?q=%22cats", 422), ("?q=cats&order=best", 422)),
        *(("?q=cats&before=1-2-3", 422), ("?q=cats&category=", 200), ("?q=title:", 422), ("?q=%26", 422)),
    ],
)
def test_searches_that_cannot_be_read_are_problems(anybody: Caller, query: str, status: int) -> None:
    assert anybody.get(f"/api/search{query}").status_code == status


def test_a_page_ends_where_its_texts_are_long(anybody: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_ENTRIES_CHARACTERS", 100)
    feed("blog", *(entry(number, content="x" * 60) for number in range(2)))
    assert titles(anybody)[0] == ["Entry 1"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/feeds/none", 404),
        ("/api/feeds/none/health", 404),
        ("/api/feeds/none/entries", 404),
        ("/api/feeds/NONE", 422),
        ("/api/feeds?limit=0", 422),
        ("/api/feeds?limit=x", 422),
        ("/api/feeds?category=%00", 422),
        ("/api/feeds/blog/entries?since=soon", 422),
        ("/api/feeds/blog/entries?q=a+b+c+d+e+f+g+h+i+j+k", 422),
        ("/api/feeds/blog/entries?before=x", 422),
        ("/api/feeds/blog/entries?limit=1000", 422),
    ],
)
def test_what_is_wrong_is_told(anybody: Caller, path: str, status: int) -> None:
    feed("blog")
    problem(anybody.get(path), status)


def test_a_page_that_begins_nowhere_is_read(anybody: Caller) -> None:
    feed("blog")
    assert get(anybody, "/api/feeds?after=%00")["feeds"]
    assert get(anybody, "/api/feeds?after=zzz")["feeds"] == []


def test_lists_name_other_feeds_with_the_same_story_but_no_hidden_ones(anybody: Caller) -> None:
    first, second, third = feed("first"), feed("second"), feed("third")
    category("local", second, third)
    story = add(first, entry(0, id="a", title="first"))
    for row in (second, third):
        told = add(row, entry(1, id=row.slug, title=row.slug))
        Entry.objects.filter(pk=told.pk).update(story=story.pk)

    def also_in(path: str) -> dict[str, list[str]]:
        return {one["title"]: [other["feed"] for other in one["also_in"]] for one in get(anybody, path)["entries"]}

    assert also_in("/api/search?q=text") == {"first": ["second", "third"]}
    assert also_in("/api/search?q=text&category=local") == {"second": ["third"]}
    assert also_in("/api/feeds/third/entries") == {"third": ["first", "second"]}
    lifecycle.hide_feeds([second.pk], NOW)
    assert also_in("/api/feeds/third/entries") == {"third": ["first"]}
    (named,) = get(anybody, "/api/feeds/third/entries")["entries"][0]["also_in"]
    assert named == {"feed": "first", "title": "First", "link": "https://site.example.org/0"}
