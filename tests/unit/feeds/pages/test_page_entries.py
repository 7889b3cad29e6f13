"""Entries of a page: order, cursors, search and bounds."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from feeds import categories
from feeds.models import Category, Entry, Feed
from feeds.pages import page_entries
from feeds.pages.query import PageQuery
from feeds.parser import documents
from tests.support import feed_rows
from tests.support.feed_rows import NOW, entry

pytestmark = pytest.mark.django_db


@pytest.fixture
def sea() -> Feed:
    """Nine entries, three of them at the same moment."""
    return feed_rows.feed("sea", *(entry(at) for at in range(6)), *(entry(at, published=NOW) for at in (6, 7, 8)))


def asked(query: str = "", slug: str = "sea") -> PageQuery:
    return PageQuery.read_address(f"/feeds/{slug}.atom?{query}")


def numbers(found: page_entries.Selection) -> list[int]:
    return [int(each.title.split()[-1]) for each in found.entries]


def shown(page: PageQuery, subject: Feed) -> list[int]:
    return numbers(page_entries.select_entries(page, subject))


def second_page(page: PageQuery, subject: Feed) -> PageQuery:
    older = page_entries.select_entries(page, subject).older
    assert older is not None
    return page.older_than(older)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 8, 9, 10])
def test_pages_have_every_entry_once_in_both_directions(sea: Feed, limit: int) -> None:
    page, pages = asked(f"limit={limit}"), []
    while True:
        pages.append(page_entries.select_entries(page, sea))
        if (older := pages[-1].older) is None:
            break
        page = page.older_than(older)
    assert [number for each in pages for number in numbers(each)] == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    for before, behind in itertools.pairwise(pages):
        assert behind.newer is not None
        assert shown(page.newer_than(behind.newer), sea) == numbers(before)


def test_a_page_stays_where_it_is_when_newer_entries_come_and_the_one_before_it_goes(sea: Feed) -> None:
    second = second_page(asked("limit=4"), sea)
    before = shown(second, sea)
    feed_rows.add(sea, entry(9, published=NOW))
    assert shown(second, sea) == before == [4, 3, 2, 1]
    Entry.objects.get(title="Entry 5").delete()
    assert shown(second, sea) == before


def test_where_few_are_newer_the_first_page_has_them(sea: Feed) -> None:
    page = asked("limit=4").newer_than(page_entries._cursor_at(Entry.objects.get(title="Entry 6")))
    assert shown(page, sea) == [8, 7, 6, 5]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        *(("GROSSE+meer", [20]), ("%C3%A4rzte", [20]), ("grosse+berge", []), ("text+3", [3])),
        *((pattern, [20]) for pattern in ("100%25", "a_c", "x'y", "back%5Cslash")),
    ],
)
def test_all_words_are_searched_for_as_they_are_without_case(sea: Feed, words: str, found: list[int]) -> None:
    feed_rows.add(sea, entry(20, title="Große Ärzte 20", content=r"<p>am MEER</p> 100% a_c x'y back\slash"))
    feed_rows.add(sea, entry(21, content="1000 abc xy backslash"))
    assert shown(asked(f"q={words}"), sea) == found


def test_since_is_when_an_entry_came_here_whatever_its_date(sea: Feed) -> None:
    Entry.objects.filter(title__in=("Entry 2", "Entry 7")).update(first_seen_at=NOW + timedelta(hours=1))
    assert shown(replace(asked(), since=NOW + timedelta(minutes=1)), sea) == [7, 2]


def test_a_page_of_long_texts_ends_early_and_goes_on(sea: Feed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_entries, "MAX_PAGE_CHARACTERS", 3 * Entry.objects.filter(feed=sea)[0].size)
    assert shown(asked(), sea) == [8, 7, 6]
    assert shown(second_page(asked(), sea), sea) == [5, 4, 3]
    monkeypatch.setattr(page_entries, "MAX_PAGE_CHARACTERS", 1)
    assert shown(asked(), sea) == [8]  # an entry longer than a page is one


def test_categories_in_a_circle_end() -> None:
    one = feed_rows.category("one")
    other = feed_rows.category("other", parent=one)
    Category.objects.filter(pk=one.pk).update(parent=other)
    assert categories.ids_with_descendants(one.slug) == {one.pk, other.pk}


def test_all_that_an_entry_says_counts_for_the_length_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_entries, "MAX_PAGE_CHARACTERS", 5_000)
    tags = tuple(documents.ParsedCategory(f"{name:0100}") for name in range(20))
    tagged = feed_rows.feed("tagged", *(entry(number, categories=tags) for number in range(3)))
    assert shown(asked(slug="tagged"), tagged) == [2, 1]


def test_a_page_reads_its_entries_without_their_feeds(
    sea: Feed, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    everything = Category.objects.get(slug="all")
    with django_assert_num_queries(3) as queries:  # with that for the filters of the combination
        found = page_entries.select_entries(asked(slug="all"), everything)
    assert len(found.entries) == 9
    assert not any('"said"' in query["sql"] or '."text"' in query["sql"] for query in queries.captured_queries)
