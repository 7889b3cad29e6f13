import itertools
import re
from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from feeds.composing import selecting
from feeds.composing.asking import Asked
from feeds.keeping import categories
from feeds.models import Category, Entry, Feed
from feeds.parsing import documents
from tests.feeds import rows
from tests.feeds.rows import NOW, entry

pytestmark = pytest.mark.django_db


@pytest.fixture
def sea() -> Feed:
    """Nine entries, three of which happened at once."""
    return rows.feed("sea", *(entry(at) for at in range(6)), *(entry(at, published=NOW) for at in (6, 7, 8)))


def asked(query: str = "", slug: str = "sea") -> Asked:
    return Asked.read_address(f"/feeds/{slug}.atom?{query}")


def numbers(found: selecting.Selection) -> list[int]:
    return [int(each.title.split()[-1]) for each in found.entries]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 8, 9, 10])
def test_pages_have_every_entry_once_in_both_directions(sea: Feed, limit: int) -> None:
    page, pages = asked(f"limit={limit}"), []
    while True:
        pages.append(selecting.select(page, sea))
        if (older := pages[-1].older) is None:
            break
        page = page.older_than(older)
    assert [number for each in pages for number in numbers(each)] == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    for before, behind in itertools.pairwise(pages):
        assert behind.newer is not None
        assert numbers(selecting.select(page.newer_than(behind.newer), sea)) == numbers(before)


def test_a_page_stays_where_it_is_when_newer_entries_come(sea: Feed) -> None:
    first = selecting.select(asked("limit=4"), sea)
    assert first.older is not None
    second = asked("limit=4").older_than(first.older)
    before = numbers(selecting.select(second, sea))
    rows.add(sea, entry(9, published=NOW))
    assert numbers(selecting.select(second, sea)) == before == [4, 3, 2, 1]


def test_a_page_stays_where_it_is_when_its_first_entry_goes(sea: Feed) -> None:
    first = selecting.select(asked("limit=4"), sea)
    assert first.older is not None
    first.entries[-1].delete()
    assert numbers(selecting.select(asked("limit=4").older_than(first.older), sea)) == [4, 3, 2, 1]


def test_where_few_are_newer_the_first_page_has_them(sea: Feed) -> None:
    third = next(each for each in Entry.objects.all() if each.title == "Entry 6")
    page = asked("limit=4").newer_than(selecting._place(third))
    assert numbers(selecting.select(page, sea)) == [8, 7, 6, 5]


def test_all_words_are_searched_for_without_case(sea: Feed) -> None:
    rows.add(sea, entry(20, title="Große Ärzte 20", content="<p>am MEER</p>"))
    assert numbers(selecting.select(asked("q=GROSSE+meer"), sea)) == [20]
    assert numbers(selecting.select(asked("q=%C3%A4rzte"), sea)) == [20]
    assert numbers(selecting.select(asked("q=grosse+berge"), sea)) == []
    assert numbers(selecting.select(asked("q=text+3"), sea)) == [3]


@pytest.mark.parametrize("words", ["100%25", "a_c", "x'y", "back%5Cslash"])
def test_what_databases_take_for_patterns_is_text(sea: Feed, words: str) -> None:
    rows.add(sea, entry(20, content=r"100% a_c x'y back\slash"))
    rows.add(sea, entry(21, content="1000 abc xy backslash"))
    assert numbers(selecting.select(asked(f"q={words}"), sea)) == [20]


def test_a_search_goes_on_where_it_stopped(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "SEARCHED_ENTRIES", 4)
    found, page = [], asked("q=text+1")
    for _ in range(4):
        selection = selecting.select(page, sea)
        found.append(numbers(selection))
        if selection.older is None:
            break
        page = page.older_than(selection.older)
    assert found == [[], [1], []]


def test_no_texts_are_searched_but_those_of_entries_that_may_be_and_none_after_the_page(
    sea: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, "SEARCHED_AT_ONCE", 2)
    for query, questions in (("q=text&limit=1", 1), ("q=text&limit=2", 2), ("q=nowhere", 5)):
        with CaptureQueriesContext(connection) as asked_of:
            selecting.select(asked(query), sea)
        searching = [each["sql"] for each in asked_of.captured_queries if " LIKE " in each["sql"]]
        assert len(searching) == questions
        assert not any(re.search(r"IN \(\s*SELECT", sql) for sql in searching)  # PostgreSQL searches all texts then


def test_a_word_that_is_said_again_and_again_is_one_condition(sea: Feed) -> None:
    with CaptureQueriesContext(connection) as asked_of:
        assert numbers(selecting.select(asked("q=" + "text+TEXT+3+" * 10), sea)) == [3]
    (searching,) = [each["sql"] for each in asked_of.captured_queries if " LIKE " in each["sql"]]
    assert searching.count(" LIKE ") == 2


def test_since_is_when_an_entry_happened(sea: Feed) -> None:
    moment = entry(4).published
    assert numbers(selecting.select(replace(asked(), since=moment), sea)) == [8, 7, 6, 5, 4]


def test_a_page_of_long_texts_ends_early_and_goes_on(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "MOST_CHARACTERS", 3 * Entry.objects.filter(feed=sea)[0].size)
    first = selecting.select(asked(), sea)
    assert numbers(first) == [8, 7, 6]
    assert first.older is not None
    assert numbers(selecting.select(asked().older_than(first.older), sea)) == [5, 4, 3]


def test_an_entry_that_is_longer_than_a_page_is_one(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "MOST_CHARACTERS", 1)
    assert numbers(selecting.select(asked(), sea)) == [8]


def test_categories_in_a_circle_end() -> None:
    one = rows.category("one")
    other = rows.category("other", parent=one)
    Category.objects.filter(pk=one.pk).update(parent=other)
    assert categories.with_those_below(one.slug) == {one.pk, other.pk}


def test_all_that_an_entry_says_counts_for_the_length_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "MOST_CHARACTERS", 5_000)
    tags = tuple(documents.Category(f"{name:0100}") for name in range(20))
    tagged = rows.feed("tagged", *(entry(number, categories=tags) for number in range(3)))
    assert numbers(selecting.select(asked(slug="tagged"), tagged)) == [2, 1]


def test_a_page_reads_its_entries_without_their_feeds(
    sea: Feed, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    everything = Category.objects.get(slug="all")
    with django_assert_num_queries(2) as queries:
        found = selecting.select(asked(slug="all"), everything)
    assert len(found.entries) == 9
    assert not any('"said"' in query["sql"] or '."text"' in query["sql"] for query in queries.captured_queries)
