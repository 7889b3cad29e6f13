"""Dates of entries, in the forms that publishers write; versions of one entry; authors."""

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.parser import normalise
from tests.support import feed_corpus

CASES = {
    "Sat, 07 Sep 2002 00:00:01 GMT": "2002-09-07T00:00:01",
    "Sat, 07 Sep 2002 00:00:01 EST": "2002-09-07T05:00:01",
    "7 Sep 2002 00:00:01 +0200": "2002-09-06T22:00:01",
    "Sat, 7 Sep 02 00:00 UT": "2002-09-07T00:00:00",
    "Sat, 7 Sep 99 00:00 UT": "1999-09-07T00:00:00",
    "Saturday, 07 September 2002 10:00:00 +0000": "2002-09-07T10:00:00",
    "Sat, 07-Sep-2002 10:00:00 GMT+2": "",
    "Sat, 07 Sep 2002 10:00:00 GMT+0200": "2002-09-07T08:00:00",
    "Sat, 07 Sep 2002 10:00:00 +0000 (UTC)": "2002-09-07T10:00:00",
    "sáb, 07 Sep 2002 10:00:00 GMT": "2002-09-07T10:00:00",
    "2002-09-07": "2002-09-07T00:00:00",
    "2002-09": "2002-09-01T00:00:00",
    "2002": "2002-01-01T00:00:00",
    "20020907T100000Z": "2002-09-07T10:00:00",
    "2002-09-07T10:00:00.123456789-05:30": "2002-09-07T15:30:00.123456",
    "2002-09-07 10:00:00": "2002-09-07T10:00:00",
    "2002-09-07T10:00+0530": "2002-09-07T04:30:00",
    "2002-09-07T10+02": "2002-09-07T08:00:00",
    "Sat Sep  7 10:00:00 2002": "2002-09-07T10:00:00",
    "Κυρ, 11 Ιούλ 2004 12:00:00 EST": "2004-07-11T17:00:00",  # Greek, by feedparser
    "Fri, 31 Dec 1999 24:00:00 GMT": "2000-01-01T00:00:00",
    "2004-06-30T23:59:60Z": "2004-06-30T23:59:59",
    "Mon, 32 Jan 2002 10:00:00 GMT": "",
    "2002-13-01": "",
    "0000-00-00T00:00:00Z": "",
    "Thu, 01 Jan 1970 00:00:00 GMT": "",
    "0001-01-01T00:00:00+14:00": "",
    "9999-12-31T23:59:59-14:00": "",
    "soon": "",
    "": "",
    "1" * 5_000: "",
}


@pytest.mark.parametrize("text", CASES, ids=lambda text: text[:40])
def test_dates_are_read_as_publishers_write_them(text: str) -> None:
    expected = CASES[text]
    found = normalise.parse_date(text)
    assert found == (datetime.fromisoformat(expected).replace(tzinfo=UTC) if expected else None)


@settings(max_examples=50)
@given(
    st.datetimes(datetime(1991, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001
    st.integers(-12 * 60, 14 * 60),
)
def test_what_is_written_by_iso_8601_or_rfc_822_is_read_back(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert normalise.parse_date(moment.isoformat()) == moment
    assert normalise.parse_date(format_datetime(moment)) == moment.replace(microsecond=0)


@settings(max_examples=50)
@given(st.text("0123456789 :+-.,TZaegnMov/é\0\u0660", max_size=60))
def test_no_text_raises(text: str) -> None:
    found = normalise.parse_date(text)
    assert found is None or found.tzinfo is UTC


def test_of_entries_with_one_id_the_newest_is_kept() -> None:
    feed = feed_corpus.parsed("same-guid.xml")
    kept = [(entry.id, entry.title, entry.content) for entry in feed.entries]
    assert kept == [("draft-1", "Final version", "Much longer."), ("draft-2", "Unlinked, last", "Longer.")]
    assert feed.notes == ("Duplicate entries: 3.",)


def test_entries_with_one_id_and_several_links_are_all_kept() -> None:
    entries = feed_corpus.parsed("same-guid-other-links.xml").entries
    links = ["https://drafts.example.org/1", "https://drafts.example.org/2"]
    assert [(entry.title, entry.id, entry.link) for entry in entries] == [
        ("Here", "", links[0]),
        ("There", "", links[1]),
    ]


def test_of_versions_without_a_date_the_first_is_kept() -> None:
    item = "<item><title>{}</title><guid isPermaLink='false'>1</guid></item>"
    items = "".join(map(item.format, ("New", "Old")))
    feed = feed_corpus.read(f"<rss><channel>{items}</channel></rss>")
    assert [entry.title for entry in feed.entries] == ["New"]


def test_entries_without_ids_that_link_to_one_page_are_all_kept() -> None:
    item = "<item><title>{}</title><link>https://drafts.example.org/</link></item>"
    items = "".join(map(item.format, ("One", "Two", "One")))
    feed = feed_corpus.read(f"<rss><channel>{items}</channel></rss>")
    assert [entry.title for entry in feed.entries] == ["One", "Two"]


def test_a_long_author_is_kept_whole() -> None:
    (author,) = feed_corpus.parsed("long-author.xml").entries[0].authors
    assert author.name.startswith("Author 1 of")
    assert author.name.endswith("Author 12 of the Collaboration")
