"""The corpus, read as it should be and as feedparser reads it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import feedparser
import pytest

from feeds.parser import markup
from tests.support import feed_corpus

Field = tuple[str, int | None]
"""A field of the feed (None) or of an entry, by its place."""

OURS: dict[str, dict[Field, object]] = {
    # feedparser takes `&b` for an entity.
    "bare-ampersands.xml": {("id", 0): "https://mistakes.example.org/?a=1&b=2"},
    # Characters that XML has not, which could not be written again.
    "control-characters.xml": {("title", 0): "Bells and whistles"},
    # feedparser does without some commas, times of the basic format, zones of half an hour, and hour 24.
    "dates.xml": {
        ("moment", 5): datetime(2002, 9, 7, 10, tzinfo=UTC),
        ("moment", 12): datetime(2002, 9, 7, 10, tzinfo=UTC),
        ("moment", 14): datetime(2002, 9, 7, 4, 30, tzinfo=UTC),
        ("moment", 16): datetime(2000, 1, 1, tzinfo=UTC),
        ("moment", 17): datetime(2004, 6, 30, 23, 59, 59, tzinfo=UTC),
        ("moment", 21): None,  # year 0
    },
    # It takes Latin letters as declared.
    "shift-jis-as-latin-1.xml": {
        ("title", None): "日本語のニュース",
        ("title", 0): "今日は天気がいいから散歩しましょう",
    },
    # It leaves spaces as they are.
    "odd-addresses.xml": {("link", 0): "https://bücher.example/漢字%20and%20more"},
    # An id that is no address is no link.
    "http-id.xml": {("link", 1): ""},
    # The source of the only entry is the feed.
    "lone-entry.xml": {("title", None): "The lonely feed", ("link", None): "https://alone.example.org/"},
    # Entries with the id of another one.
    "same-guid-other-links.xml": {("id", 0): "", ("id", 1): ""},
    # All versions of an entry.
    "same-guid.xml": {
        ("count", None): 2,
        ("title", 0): "Final version",
        ("moment", 0): datetime(2021, 6, 3, 10, tzinfo=UTC),
        ("title", 1): "Unlinked, last",
        ("link", 1): "",
        ("id", 1): "draft-2",
        ("moment", 1): datetime(2021, 6, 2, 10, tzinfo=UTC),
    },
    # The second is there twice; the first two share an id.
    "duplicate-ids.xml": {("count", None): 3, ("id", 0): "", ("id", 1): ""},
    "future-dates.xml": {("moment", 0): None},
    "mixed-encodings.xml": {("title", None): "Größe", ("title", 0): "Größe"},
    "relative-addresses.xml": {("link", 1): ""},  # javascript:
    "utf-8-as-utf-16.xml": {
        ("title", None): "Größe",
        ("link", None): "http://encoded.example.org/",
        ("count", None): 1,
    },
}
"""Where the two differ, and we are right."""


@pytest.mark.parametrize("name", feed_corpus.XML_NAMES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_reads_titles_links_ids_and_dates_as_feedparser_does(name: str) -> None:
    ours, theirs = dict(_ours(name)), dict(_theirs(name))
    differing = {field: value for field, value in ours.items() if field in theirs and theirs[field] != value}
    assert differing == OURS.get(name, {})


def test_uses_feedparser_only_for_what_cannot_be_mended() -> None:
    loose = {name for name in feed_corpus.XML_NAMES if feed_corpus.parsed(name).reader == "feedparser"}
    assert loose == {"bare-less-than.xml", "truncated.xml", "unclosed-tags.xml", "upper-case.xml"}


def _ours(name: str) -> Iterator[tuple[Field, object]]:
    parsed = feed_corpus.parsed(name)
    yield ("title", None), parsed.feed.title
    yield ("link", None), parsed.feed.link
    yield ("count", None), len(parsed.entries)
    for place, entry in enumerate(parsed.entries):
        yield ("title", place), entry.title
        yield ("link", place), entry.link
        yield ("id", place), entry.id
        yield ("moment", place), _whole_seconds(entry.published or entry.updated)
        yield ("updated", place), _whole_seconds(entry.updated or entry.published)


def _theirs(name: str) -> Iterator[tuple[Field, object]]:
    headers = {"content-type": feed_corpus.content_type(name), "content-location": feed_corpus.URL}
    parsed = feedparser.parse(BytesIO(feed_corpus.data(name)), response_headers=headers)
    yield ("title", None), _plain(parsed.feed.get("title", ""))
    yield ("link", None), parsed.feed.get("link", "")
    yield ("count", None), len(parsed.entries)
    for place, entry in enumerate(parsed.entries):
        moments = [_moment(entry, f"{key}_parsed") for key in ("published", "created", "updated")]
        yield ("title", place), _plain(dict.get(entry, "title", ""))
        yield ("link", place), dict.get(entry, "link", "")
        yield ("id", place), dict.get(entry, "id", "")
        yield ("moment", place), next((moment for moment in moments if moment), None)
        if moments[0] and moments[2]:
            yield ("updated", place), moments[2]


def _plain(title: str) -> str:
    """feedparser gives markup."""
    return markup.html_to_text(title) if markup.is_markup(title) else markup.to_one_line(title)


def _moment(entry: Any, key: str) -> datetime | str | None:
    found = dict.get(entry, key)
    if not found:
        return None
    year, month, day, hour, minute, second = found[:6]
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC) if year > 0 else "out of range"


def _whole_seconds(moment: datetime | None) -> datetime | None:
    return moment and moment.replace(microsecond=0)
