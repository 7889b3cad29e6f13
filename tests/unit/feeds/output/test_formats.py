"""Rendered formats, judged by other programs."""

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import feedparser
import jsonschema_rs
import pytest
from lxml import etree

from feeds.output import atom, jsonfeed, rss
from feeds.parser.documents import EntrySource, FeedHead, ParsedEntry
from tests.support import feed_corpus
from tests.support.feed_pages import ADDRESS, FULL, NOW, PLAIN, UPDATED_ONLY, page

XML = {"atom": atom, "rss": rss}
SCHEMA = json.loads((Path(__file__).parents[3] / "support" / "jsonfeed-1.1.schema.json").read_text())


def _by_feedparser(document: bytes) -> Any:
    return feedparser.parse(BytesIO(document), response_headers={"content-type": "application/xml; charset=utf-8"})


@pytest.mark.parametrize("name", XML)
def test_feedparser_reads_it_without_complaint(name: str) -> None:
    parsed = _by_feedparser(XML[name].render(page(FULL, PLAIN, UPDATED_ONLY)))
    assert not parsed.bozo
    assert parsed.version == {"atom": "atom10", "rss": "rss20"}[name]
    assert [dict.get(entry, "id") for entry in parsed.entries] == [FULL.id, PLAIN.id, UPDATED_ONLY.id]
    assert parsed.entries[0].link == FULL.link
    assert parsed.entries[0].enclosures[0].href == FULL.enclosures[0].url
    links = {(link.rel, link.href) for link in parsed.feed.links}
    assert {("self", ADDRESS), ("next", f"{ADDRESS}?page=3"), ("previous", f"{ADDRESS}?page=1")} <= links


@pytest.mark.parametrize("name", XML)
@pytest.mark.parametrize("source", feed_corpus.NAMES)
def test_feedparser_reads_the_whole_corpus_rendered(name: str, source: str) -> None:
    parsed = feed_corpus.parsed(source)
    read = _by_feedparser(XML[name].render(page(*parsed.entries, feed=parsed.feed)))
    assert not read.bozo
    assert len(read.entries) == len(parsed.entries)


@pytest.mark.parametrize("source", feed_corpus.NAMES)
def test_json_is_of_the_schema(source: str) -> None:
    parsed = feed_corpus.parsed(source)
    document = json.loads(jsonfeed.render(page(*parsed.entries, FULL, UPDATED_ONLY, feed=parsed.feed)))
    jsonschema_rs.validate(SCHEMA, document, validate_formats=True)


def test_the_schema_refuses_what_is_none() -> None:
    document = json.loads(jsonfeed.render(page(FULL)))
    for broken in ({"version": "1.1"}, {"items": [{"id": "x"}]}, {"next_url": "not an address"}, {"unknown": 1}):
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(SCHEMA, {**document, **broken}, validate_formats=True)


def test_json_has_the_address_of_the_next_page_and_none_on_the_last() -> None:
    assert json.loads(jsonfeed.render(page()))["next_url"] == f"{ADDRESS}?page=3"
    assert "next_url" not in json.loads(jsonfeed.render(replace(page(), next_address="")))


def test_atom_has_what_it_asks_of_every_feed_and_entry() -> None:
    bare = page(ParsedEntry(title="Nothing else"), feed=FeedHead(title="Bare"))
    root = etree.fromstring(atom.render(bare))
    name = "{http://www.w3.org/2005/Atom}"
    for parent in (root, root.find(f"{name}entry")):
        assert parent is not None
        for required in ("id", "title", "updated"):
            assert parent.findtext(f"{name}{required}")
    assert root.findtext(f"{name}author/{name}name") == "Bare"


def test_ids_that_are_only_unique_in_their_feed_are_made_unique() -> None:
    for feed in ("https://one.example.org/feed", "https://other.example.org/feed"):
        assert page().unique_id(ParsedEntry(id="7", source=EntrySource("", f"{feed}#x"))) == f"{feed}#7"
    assert page().unique_id(ParsedEntry(id="a b/ü")) == f"{ADDRESS}#a%20b%2F%C3%BC"
    assert page().unique_id(ParsedEntry(link="https://x.example.org/")) == "https://x.example.org/"
    assert len({page().unique_id(ParsedEntry(title=title, published=NOW)) for title in "xy"}) == 2


def test_what_the_publisher_asks_of_readers_is_not_asked_in_our_name() -> None:
    feed = feed_corpus.parsed("rss-0.92.xml").feed
    assert feed.cloud
    for renderer in (atom, rss, jsonfeed):
        assert b"rpc.example.org" not in renderer.render(page(feed=feed))


@pytest.mark.parametrize("name", XML)
def test_characters_that_xml_has_not_are_left_out(name: str) -> None:
    entry = ParsedEntry(id="urn:x:1", title="a\x00b\x0bc\ufffe", content="\x1bx", published=NOW)
    assert not _by_feedparser(XML[name].render(page(entry))).bozo
