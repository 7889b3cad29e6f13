"""What the API tells of feeds."""

import json
from typing import Any

import pytest

from feeds.api import reading
from feeds.deciding import checking
from feeds.deciding.checking import Circumstances
from feeds.deciding.standing import State
from feeds.deciding.troubles import trouble_of
from feeds.keeping import health, standings
from feeds.models import Feed
from resources.fetching.keeping.models import FetchTiming
from resources.fetching.outcomes import Failed, Failure, Timing
from tests.feeds.rows import NOW, category, entry, feed
from tests.resources.api.conftest import Caller, problem


def listed(caller: Caller, path: str) -> list[str]:
    return [one["slug"] for one in get(caller, path)["feeds"]]


def get(caller: Caller, path: str) -> Any:
    answer = caller.get(path)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_pages_of_feeds_lead_through_all_of_them(anybody: Caller) -> None:
    for name in "abcde":
        feed(name)
    found, path = [], "/api/feeds?limit=2"
    while path:
        page = get(anybody, path)
        found += [one["slug"] for one in page["feeds"]]
        path = (page["next"] or "").removeprefix("http://testserver")
    assert found == list("abcde")


def test_a_category_has_the_feeds_of_those_below_it_once(anybody: Caller) -> None:
    one, other = feed("one"), feed("other")
    feed("elsewhere")
    news = category("news", one)
    category("tech", one, other, parent=news)
    assert listed(anybody, "/api/feeds?category=news") == ["one", "other"]
    assert "no category" in problem(anybody.get("/api/feeds?category=nothing"), 404)


def test_feeds_are_listed_by_how_they_stand(anybody: Caller) -> None:
    feed("well")
    feed("failing", state=State.FAILING.value)
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
    row = feed("blog", state=State.FAILING.value, trouble="TIMEOUT", failures=3, failing_since=NOW)
    FetchTiming.objects.create(
        started_at=NOW,
        url_digest=row.key_digest,  # of its address, in these rows
        host=row.host,
        scope=row.host,
        kind="feed",
        lane="fast",
        seconds=1.5,
        wire_bytes=10,
        outcome="fetched",
        status=200,
    )
    found = get(anybody, "/api/feeds/blog/health")
    assert found["standing"] == "failing"
    assert found["trouble"] == "its server was too slow"
    assert found["failures"] == 3
    assert found["why"] == []  # it may name addresses
    assert get(manager, "/api/feeds/blog/health")["why"]
    assert [one["seconds"] for one in found["fetches"]] == [1.5]


@pytest.mark.parametrize("failure", [Failure.REFUSED, Failure.OURS])
def test_nobody_is_told_of_addresses_of_a_private_network(manager: Caller, failure: Failure) -> None:
    row = feed("blog")
    failed = Failed(failure, "blog.example: 10.1.2.3 is not global (private)", Timing(NOW.timestamp(), 0))
    decision = checking.decide(standings.standing_of(row), failed, (), Circumstances(NOW))
    trouble = trouble_of(failed).name
    Feed.objects.update(**standings.fields_of(decision), trouble=trouble)
    assert "10.1.2.3" in Feed.objects.get().reason  # for the admin
    found = get(manager, "/api/feeds/blog/health")
    assert "10.1.2.3" not in json.dumps(found)
    assert found["why"][1] == health.IN_PLACE[trouble]


def test_entries_come_in_pages_newest_first(anybody: Caller) -> None:
    feed("blog", *(entry(number) for number in range(5)))
    titles, path = [], "/api/feeds/blog/entries?limit=2"
    while path:
        page = get(anybody, path)
        titles += [one["title"] for one in page["entries"]]
        path = (page["next"] or "").removeprefix("http://testserver")
    assert titles == [f"Entry {number}" for number in (4, 3, 2, 1, 0)]


def test_entries_are_searched(anybody: Caller) -> None:
    feed("blog", entry(1, title="Of cats"), entry(2, title="Of dogs"))
    found = get(anybody, "/api/feeds/blog/entries?q=cats")
    assert [one["title"] for one in found["entries"]] == ["Of cats"]


def test_a_search_that_main_would_take_long_for_goes_on_with_the_next_page(
    anybody: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SEARCHED_ENTRIES", 2)
    feed("blog", entry(1, title="Of cats"), *(entry(number) for number in range(2, 6)))
    pages, path = [], "/api/feeds/blog/entries?q=cats"
    while path:
        page = get(anybody, path)
        pages.append([one["title"] for one in page["entries"]])
        path = (page["next"] or "").removeprefix("http://testserver")
    assert pages == [[], [], ["Of cats"]]


def test_a_page_ends_where_its_texts_are_long(anybody: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_CHARACTERS", 100)
    feed("blog", *(entry(number, content="x" * 60) for number in range(2)))
    assert [one["title"] for one in get(anybody, "/api/feeds/blog/entries")["entries"]] == ["Entry 1"]


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
