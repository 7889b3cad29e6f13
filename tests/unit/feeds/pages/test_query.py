"""Page queries: reading an address, writing it, its key, and refused parameters."""

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from feeds.errors import PageQueryError
from feeds.pages.query import Cursor, PageQuery
from feeds.pages.search_terms import MAX_SEARCH_TERMS

PLACE = Cursor(datetime(2026, 11, 1, 12, 0, 0, 250_000, tzinfo=UTC), 7)


def read(address: str) -> PageQuery | None:
    parts = urlsplit(address)
    return PageQuery.read(parts.path, parse_qs(parts.query, keep_blank_values=True))


@pytest.mark.parametrize(
    "path",
    [
        *("/feeds/", "/feeds/all.atom", "/feeds/all.rss", "/feeds/all.json", "/feeds/a-1/", "/feeds/a-1.atom"),
        *("/feeds/category/sea.json", "/feeds/category/all-in/", "/feeds/allotment.rss", "/feeds/categorys.rss"),
    ],
)
def test_an_address_is_read_as_it_is_written(path: str) -> None:
    asked = PageQuery.read_path(path)
    assert asked is not None
    assert asked.path == asked.address == path


@pytest.mark.parametrize(
    "path",
    [
        *("/feeds/all/", "/feeds/category/", "/feeds/category.atom", "/feeds/category/all.atom", "/feeds/a"),
        *("/feeds/A.atom", "/feeds/a_b.atom", "/feeds/-a.atom", "/feeds/a.ATOM", "/feeds/a.atom/", "/feeds/a.atom\n"),
        *("/feeds/a.xml", "/feeds//a.atom", "/feeds/a/b.atom", "/feeds/ü.atom", "/feeds/a.atom?q=x", "/feeds/.atom"),
    ],
)
def test_what_is_no_feeds_address_is_none(path: str) -> None:
    assert PageQuery.read_path(path) is None


def test_all_ways_to_write_the_same_have_one_key_and_one_address() -> None:
    ways = [
        "/feeds/all.atom?q=Deep%20%20Sea&limit=10&since=2026-11-01",
        "/feeds/all.atom?since=2026-11-01T01:00:00%2B01:00&limit=10&q=deep+sea&before=",
        "/feeds/all.atom?since=2026-11-01T01:00:00+01:00&q=+DEEP+sea+&limit=10",
    ]
    query = "q=deep%20sea&since=2026-11-01T00%3A00%3A00Z&limit=10"
    found = {(asked.key, asked.address) for way in ways if (asked := read(way))}
    assert found == {(f"feeds:all:atom:{query}", f"/feeds/all.atom?{query}")}


def test_what_goes_without_saying_is_left_out() -> None:
    assert read("/feeds/a.atom?limit=50&q=&since=") == read("/feeds/a.atom")
    assert read("/feeds/a/?limit=20") == read("/feeds/a/")


def test_different_pages_have_different_keys() -> None:
    addresses = [
        *("/feeds/a.atom", "/feeds/a.rss", "/feeds/a/", "/feeds/category/a.atom", "/feeds/all.atom"),
        *("/feeds/a.atom?q=x", "/feeds/a.atom?q=y", "/feeds/a.atom?limit=1", "/feeds/a.atom?since=2026-11-01"),
        *(f"/feeds/a.atom?before={PLACE}", f"/feeds/a.atom?after={PLACE}", f"/feeds/a.atom?q={'ü' * 199}"),
        *(f"/feeds/a.atom?q={'ü' * 200}", "/feeds/a.atom?q=limit%3D1", "/feeds/a.atom?q=x%26limit%3D1"),
    ]
    keys = [asked.key for address in addresses if (asked := read(address))]
    assert len(set(keys)) == len(addresses)
    assert all(len(key) <= 500 and key.isascii() and " " not in key for key in keys)


@pytest.mark.parametrize(
    "address", ["/feeds/a.json?q=ü%26b+%25&since=1999-12-31T23:59:59.5Z&limit=3", f"/feeds/category/a/?before={PLACE}"]
)
def test_its_own_address_asks_for_the_same(address: str) -> None:
    asked = read(address)
    assert asked is not None
    assert PageQuery.read_address(asked.address) == asked


@pytest.mark.parametrize(
    ("query", "word"),
    [
        *(("q=a&q=b", "q is given"), ("q=" + "x" * 201, "200"), ("q=caf%E9", "UTF-8")),
        *(("limit=0", "limit"), ("limit=201", "limit"), ("limit=-1", "limit"), ("limit=1.0", "limit")),
        *(("limit=٣", "limit"), ("limit=99999999999999999999", "limit")),
        *(("since=yesterday", "since"), ("since=2026-13-01", "since"), ("since=2026-11-01T12:00:00", "since")),
        *(("since=0001-01-01T00:00:00%2B23:59", "since"), ("since=20261101", "since"), ("since=2026-W01-1", "since")),
        *(("before=1", "before"), ("before=x-1", "before"), ("after=-1-1", "after"), ("before=1-", "before")),
        *((f"before={10**18 - 1}-1", "before"), ("before=٣-1", "before"), (f"before={PLACE}&after={PLACE}", "both")),
    ],
)
def test_bad_parameters_are_named(query: str, word: str) -> None:
    with pytest.raises(PageQueryError, match=word):
        read(f"/feeds/a.atom?{query}")


def test_unknown_parameters_are_ignored() -> None:
    assert read("/feeds/a.atom?utm_source=x&ref=1&ref=2&Q=y&q=sea") == read("/feeds/a.atom?q=sea")
    page = PageQuery.page_of_feed("sea")
    assert (page.knows(["q", "limit"]), page.knows(["q", "utm_source"])) == (True, False)


def test_words_count_once_and_there_are_few() -> None:
    assert read("/feeds/a.atom?q=Deep+sea+deep+SEA+" + "deep+" * 30) == read("/feeds/a.atom?q=deep+sea")
    assert read(f"/feeds/a.atom?q={'+'.join(map(str, range(MAX_SEARCH_TERMS)))}+9") is not None
    with pytest.raises(PageQueryError, match="10 words"):
        read(f"/feeds/a.atom?q={'+'.join(map(str, range(MAX_SEARCH_TERMS + 1)))}")


def test_half_a_character_is_refused() -> None:
    with pytest.raises(PageQueryError, match="UTF-8"):
        PageQuery.read("/feeds/a.atom", {"q": ["\ud800"]})


def test_a_place_is_read_as_it_was_written() -> None:
    assert str(PLACE) == "1793534400250000-7"
    assert Cursor.read(str(PLACE)) == PLACE


def test_the_best_first_is_an_order_of_searches_for_something() -> None:
    page = read("/feeds/a.atom?order=rank&q=sea")
    assert page is not None
    assert page.address == "/feeds/a.atom?q=sea&order=rank"
    for query in ("order=rank", "order=rank&q=-sea", "order=rank&q=feed:b"):
        plain = read(f"/feeds/a.atom?{query}")
        assert plain is not None
        assert plain.order == "date"
        assert "order" not in plain.address


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("order=best", "order"),
        (f"q=sea&order=rank&before={PLACE}", "same order"),
        (f"q=sea&before={PLACE}-20", "same order"),
        (f"q=sea&order=rank&after={PLACE}", "before alone"),
        (f"q=sea&order=rank&before={PLACE}-0", "before"),
    ],
)
def test_places_of_one_order_are_none_of_the_other(query: str, word: str) -> None:
    with pytest.raises(PageQueryError, match=word):
        read(f"/feeds/a.atom?{query}")
