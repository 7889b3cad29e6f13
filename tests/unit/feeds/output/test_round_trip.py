"""Rendered output, read again: nothing is lost, and nothing added."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.parser import markup as parser_markup
from feeds.parser.documents import Author, ParsedCategory, ParsedEntry
from tests.support import feed_corpus
from tests.support.feed_pages import ADDRESS, FEED, FULL, NOW, PLAIN, RENDERERS, UPDATED_ONLY, page, read_back

FORMATS = pytest.mark.parametrize("name", RENDERERS)


@FORMATS
def test_entries_come_back_as_they_were(name: str) -> None:
    entries = (FULL, PLAIN, UPDATED_ONLY)
    assert read_back(RENDERERS[name].render(page(*entries))).entries == entries


@FORMATS
def test_the_feed_comes_back_as_it_was(name: str) -> None:
    assert read_back(RENDERERS[name].render(page(FULL))).feed == FEED


@FORMATS
@pytest.mark.parametrize("source", [name for name in feed_corpus.NAMES if feed_corpus.parsed(name).entries])
def test_every_entry_of_the_corpus_comes_back(name: str, source: str) -> None:
    parsed = feed_corpus.parsed(source)
    dated = [entry if entry.published or entry.updated else replace(entry, updated=NOW) for entry in parsed.entries]
    shown = page(*dated, feed=replace(parsed.feed, self_link=ADDRESS))
    expected = tuple(replace(entry, id=shown.unique_id(entry)) for entry in dated)
    back = read_back(RENDERERS[name].render(shown))
    assert back.entries == expected
    assert back.notes == ()


CHARACTERS = "aZ09 <>&\"'/;#=%@-_.,\u00a0\u00adßéИ漢\u0301\u200b\u202e\u2028\ufeff🎈"
TEXTS = st.text(CHARACTERS, max_size=30).map(parser_markup.to_one_line)


@FORMATS
@given(title=TEXTS, term=TEXTS.filter(bool), author=TEXTS, markup=st.text("ab<>/&;p \n'\"", max_size=60))
@settings(max_examples=30)
def test_any_text_comes_back(name: str, title: str, term: str, author: str, markup: str) -> None:
    plain = parser_markup.html_to_text(author)
    entry = ParsedEntry(
        id="urn:x:1",
        title=title if not parser_markup.is_markup(title) else "",
        published=datetime(2021, 1, 1, tzinfo=UTC),
        content=parser_markup.sanitise_html(markup, ADDRESS),
        authors=(Author(plain),) if plain and parser_markup.html_to_text(plain) == plain and "@" not in plain else (),
        categories=(ParsedCategory(term),),
    )
    (back,) = read_back(RENDERERS[name].render(page(entry))).entries
    assert back == entry
