"""Readings of a body, as the database takes them."""

import json
from datetime import UTC, datetime

from feeds import readings
from feeds.readings import BodyToRead, EntryRow, FeedReading

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
QUESTION = BodyToRead("application/feed+json", "https://example.org/feed.json", NOW, ())


def read(**item: object) -> EntryRow:
    feed = {"version": "https://jsonfeed.org/version/1.1", "title": "A feed", "items": [{"id": "1", **item}]}
    found = readings.read_feed_body(json.dumps(feed).encode(), QUESTION)
    assert isinstance(found, FeedReading), found
    (row,) = found.rows
    return row


def test_characters_that_databases_refuse_are_nowhere_in_it() -> None:
    row = read(title="Nul \0 and half \ud83d", content_text="a\0b \udc00")
    written = json.dumps(row.to_json())
    assert "\\u0000" not in written
    assert "\\ud" not in written


def test_what_is_searched_is_all_that_is_said_without_tags_and_case() -> None:
    said = {"tags": ["Reise"], "authors": [{"name": "Ann Lee"}], "content_html": "<p>Straße &amp; <b>Weg</b></p>"}
    assert read(title="Städte", **said).text == "stadte \ue000 ann lee \ue000 reise \ue000 strasse weg"


def test_a_long_text_is_searched_as_far_as_it_is_looked_at() -> None:
    assert len(read(title="a", content_text="word " * 100_000).text) <= readings.MAX_SEARCHABLE_CHARACTERS


def test_a_reading_comes_out_of_json_as_it_went_in() -> None:
    row = read(title="a", content_html="<p>b", date_published="2026-10-31T00:00:00Z")
    assert EntryRow.from_json(json.loads(json.dumps(row.to_json()))) == row
    assert BodyToRead.from_json(json.loads(json.dumps({**QUESTION.to_json(), "kept": [["i", "l", "c", "d"]]}))).kept
