"""Searches of either database: the same entries, in the same pages."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from pytest_django import Settings

from feeds.errors import SearchTimeoutError
from feeds.models import Category, Entry, Feed
from feeds.pages import entry_search, page_entries
from feeds.pages.query import PageQuery
from feeds.parser.documents import Author, ParsedCategory
from tests.support import feed_rows
from tests.support.feed_rows import NOW, entry

pytestmark = pytest.mark.django_db

ENTRIES: dict[int, dict[str, Any]] = {
    1: {"title": "Große Ärzte", "content": "<p>am MEER, mit Wi-Fi😀 und naïve café</p>"},
    2: {"title": "The deep sea", "authors": (Author("Ann Lée"), Author("Bob"))},
    3: {"title": "A sea so deep", "content": "deep " * 400, "categories": (ParsedCategory("sea"),)},
    4: {"title": "Ships", "categories": (ParsedCategory("x", label="Deep & Blue"),), "content": "sea, the deepest"},
    5: {"title": "Привет, МИР", "content": "ёлка и Йогурт"},
    6: {"title": "東京の天気", "content": "今日は晴れです。AB12 3.14"},
    7: {"title": "हिन्दी समाचार", "content": "x" * 5_000 + " \u0130stanbul ΟΔΟΣ"},
}


@pytest.fixture(params=["sorted", "walked"])
def sea(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Feed:
    """Entries of one feed, which is searched in either way."""
    monkeypatch.setattr(entry_search, "_is_common", lambda *_: request.param == "walked")
    return feed_rows.feed("sea", *(entry(number, **fields) for number, fields in ENTRIES.items()))


def find(query: str, address: str = "all.atom") -> list[int]:
    """The numbers of the found entries, in the order of the page."""
    return numbers(ask(address, q=query))


def ask(address: str = "all.atom", **given: str) -> PageQuery:
    asked = PageQuery.read(f"/feeds/{address}", {name: [value] for name, value in given.items()})
    assert asked is not None
    return asked


def numbers(asked: PageQuery) -> list[int]:
    found = page_entries.select_entries(asked, page_entries.find_subject(asked))
    return [int(each.link.rpartition("/")[2]) for each in found.entries]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        *(("GROSSE ärzte", [1]), ("arzte", [1]), ("Große", [1]), ("title:grosse", [1]), ("title:GROßE", [1])),
        *(("naive", [1]), ("CAFÉ", [1]), ("wi-fi", [1]), ("fi", [1]), ('"wi fi"', [1]), ("meer", [1]), ("mee", [])),
        *(("deep", [4, 3, 2]), ("deep sea", [4, 3, 2]), ('"deep sea"', [2]), ('"sea deep"', []), ("deep*", [4, 3, 2])),
        *(("deepe*", [4]), ("deep -ships", [3, 2]), ('sea -"deep sea"', [4, 3]), ("-deep", [7, 6, 5, 1])),
        *(("title:deep", [3, 2]), ('title:"so deep"', [3]), ("tag:deep", [4]), ("tag:x", []), ("tag:sea deep", [3])),
        *(("-title:deep sea", [4]), ("author:lee", [2]), ('author:"ann lée"', [2]), ("author:sea", []), ("bob", [2])),
        *(("привет мир", [5]), ("title:МИР", [5]), ("ЁЛКА", [5]), ("йогурт", [5]), ("елка", [])),
        *(("天気", [6]), ("東京", [6]), ("京東", []), ("今日は晴れ", [6]), ("title:東京", [6]), ("ab12", [6])),
        *(("3.14", [6]), ("3", [6]), ("हिन्दी", [7]), ("istanbul", [7]), ("οδος", [7]), ("x" * 150, [7])),
        *(
            ("feed:sea deep", [4, 3, 2]),
            ("feed:none deep", []),
            ("-feed:sea deep", []),
            ("feed:sea feed:none ships", [4]),
        ),
        *(("feed:sea", [7, 6, 5, 4, 3, 2, 1]), ("e", []), ("t:deep", []), ("f:1", []), ("\ue000", None)),
    ],
)
def test_the_same_entries_are_found_in_either_database(sea: Feed, query: str, found: list[int] | None) -> None:
    if found is None:
        return
    assert find(query) == found
    assert find(query, "sea.atom") == found


def test_entries_stored_by_an_earlier_version_are_found(sea: Feed) -> None:
    Entry.objects.filter(feed=sea, title="Ships").update(text="ships café Ōsaka «крым» 5€ (x)")
    for query in ("title:ships cafe", "osaka", "крым", "x", '"osaka крым"'):
        assert find(query) == [4]


def test_pages_of_a_search_have_every_match_once_and_none_is_empty(sea: Feed) -> None:
    for limit in (1, 2, 3):
        asked, pages, goes_on = ask(q="sea", limit=str(limit)), [], True
        while goes_on:
            found = page_entries.select_entries(asked, page_entries.find_subject(asked))
            assert found.entries
            pages += [int(each.link.rpartition("/")[2]) for each in found.entries]
            goes_on = found.older is not None
            asked = asked.older_than(found.older) if found.older else asked
        assert pages == [4, 3, 2]


def test_a_page_before_another_has_the_nearest_newer_matches(sea: Feed) -> None:
    asked = ask(q="sea", limit="1")
    place = page_entries._cursor_at(Entry.objects.get(title="The deep sea"))
    assert numbers(asked.newer_than(place)) == [3]


def test_since_selects_matches_by_their_arrival(sea: Feed) -> None:
    Entry.objects.filter(title="The deep sea").update(first_seen_at=NOW + timedelta(hours=1))
    since = (NOW + timedelta(minutes=1)).isoformat()
    assert numbers(ask(q="sea", since=since)) == [2]


def test_the_best_are_first_where_that_is_wanted_and_newer_entries_shift_none(sea: Feed) -> None:
    asked = ask(q="deep", order="rank", limit="1")
    first = page_entries.select_entries(asked, page_entries.find_subject(asked))
    assert first.newer is None
    assert first.older is not None
    assert first.entries[0].title in {"The deep sea", "A sea so deep"}  # the word is in the title
    feed_rows.add(sea, entry(9, title="Deep deep deep", published=NOW))
    seen, page = [first.entries[0].pk], asked.older_than(first.older)
    while True:
        found = page_entries.select_entries(page, page_entries.find_subject(page))
        seen += [each.pk for each in found.entries]
        if found.older is None:
            break
        page = page.older_than(found.older)
    assert sorted(seen) == sorted(
        Entry.objects.filter(title__in=["The deep sea", "A sea so deep", "Ships"]).values_list("pk", flat=True)
    )
    assert found.newer is not None
    assert numbers(page.page_before(found.newer)) != numbers(page)
    assert numbers(asked) == [9]


def test_only_the_newest_matches_are_ranked(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_search, "MAX_RANKED_ENTRIES", 1)
    assert numbers(ask(q="deep", order="rank")) == [4]


@pytest.mark.parametrize("named", [0, 100])
def test_hidden_and_paused_feeds_and_those_of_no_such_category_are_left_out(
    sea: Feed, monkeypatch: pytest.MonkeyPatch, named: int
) -> None:
    monkeypatch.setattr(entry_search, "MAX_NAMED_FEEDS", named)
    feed_rows.feed("secret", entry(11, title="Deep"), is_hidden=True)
    feed_rows.feed("still", entry(12, title="Deep"), paused=True)
    land = feed_rows.feed("land", entry(13, title="Deep"), entry(14))
    feed_rows.category("near", land)
    feed_rows.category("empty")
    assert find("deep") == [13, 4, 3, 2]
    assert find("feed:secret deep") == find("feed:still deep") == find("deep", "category/empty.atom") == []
    assert find("deep", "category/near.atom") == [13]
    assert find("deep", "still.atom") == [12]
    assert find("-deep -feed:sea") == find("-deep", "category/near.atom") == [14]


def test_a_walk_that_finds_too_few_is_no_answer(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_search, "MAX_WALKED_ENTRIES", 2)
    assert find("title:deep") == [3, 2]


@pytest.fixture
def slow_database() -> Iterator[None]:
    """Queries of which the database does not come to an end in time."""

    def slow(execute, sql, params, many, context):  # type: ignore[no-untyped-def]
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        is_search = "feeds_entrywords" in sql
        return execute(endless, None, many, context) if is_search else execute(sql, params, many, context)

    with connection.execute_wrapper(slow):
        yield


def test_a_search_that_takes_too_long_ends(sea: Feed, slow_database: None, settings: Settings) -> None:
    settings.FEEDS_SEARCH_SECONDS = 0.05
    with pytest.raises(SearchTimeoutError):
        find("deep")


def test_another_failure_of_the_database_is_no_matter_of_time(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(entry_search, "_find_matches", fail)
    with pytest.raises(OperationalError, match="away"):
        find("deep")


def test_which_way_is_taken_does_not_matter(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    everything = Category.objects.get(slug="all")
    asked = ask(q="sea -ships")
    assert [each.title for each in page_entries.select_entries(asked, everything).entries] == [
        "A sea so deep",
        "The deep sea",
    ]
