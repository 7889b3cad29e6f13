"""Rendered formats, judged by other programs and read again: nothing is lost, and nothing added."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import feedparser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from feeds.output import atom, jsonfeed, output_page, rss
from feeds.parser import markup as parser_markup
from feeds.parser.documents import Author, Chapter, EntrySource, FeedHead, ParsedCategory, ParsedEntry, Transcript
from feeds.parser.entries import link_of_id
from tests.support import feed_corpus, feed_pages
from tests.support.feed_pages import ADDRESS, FEED, FULL, NOW, PLAIN, RENDERERS, UPDATED_ONLY, page, read_back

XML = {"atom": atom, "rss": rss}


@pytest.mark.parametrize("name", XML)
def test_feedparser_reads_it_without_complaint(name: str) -> None:
    document = BytesIO(XML[name].render(page(FULL, PLAIN, UPDATED_ONLY)))
    parsed: Any = feedparser.parse(document, response_headers={"content-type": feed_pages.MEDIA_TYPES[name]})
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
    assert len(feed_pages.read(XML[name].render(page(*parsed.entries, feed=parsed.feed)), name).ids) == len(
        parsed.entries
    )


@pytest.mark.parametrize("source", feed_corpus.NAMES)
def test_json_is_of_the_schema(source: str) -> None:
    parsed = feed_corpus.parsed(source)
    found = feed_pages.read(jsonfeed.render(page(*parsed.entries, FULL, UPDATED_ONLY, feed=parsed.feed)), "json")
    assert len(found.ids) == len(parsed.entries) + 2


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
    assert feed_pages.read(XML[name].render(page(entry)), name).titles == ["abc"]


def test_items_of_rss_have_no_source_of_atom() -> None:
    document = rss.render(page(FULL, replace(FULL, id="urn:x:9", source=EntrySource("Untitled", "", FULL.link))))
    root = etree.fromstring(document)
    assert root.findall(".//{http://www.w3.org/2005/Atom}source") == []
    assert [(each.text, each.get("url")) for each in root.iter("source")] == [
        ("The site", "https://site.example.org/feed")
    ]


FORMATS = pytest.mark.parametrize("name", RENDERERS)


@FORMATS
def test_addresses_have_the_characters_of_an_address(name: str) -> None:
    parsed = feed_corpus.parsed("odd-addresses.xml")
    document = RENDERERS[name].render(page(*parsed.entries, feed=parsed.feed))
    addresses = set(re.findall(r'https?:[^"<>]*', document.decode()))
    assert len(addresses) > 5
    assert [address for address in addresses if not re.fullmatch(r"[!-~]+", address)] == []
    for path in ("%E6%BC%A2%E5%AD%97%20and%20more", "caf%C3%A9.mp3", "%C3%BCbersicht", "100%25.png"):
        assert path.encode() in document
    assert b"https://xn--bcher-kva.example/" in document


@FORMATS
def test_addresses_of_icons_chapters_and_transcripts_are_encoded_too(name: str) -> None:
    odd, encoded = "https://bücher.example/über uns", b"https://xn--bcher-kva.example/%C3%BCber%20uns"
    episode: dict[str, Any] = {
        "chapters": (Chapter(1, url=f"{odd}/1", image=f"{odd}/2"),),
        "chapters_url": f"{odd}/3",
        "transcripts": (Transcript(f"{odd}/4"),),
    }
    document = RENDERERS[name].render(page(replace(PLAIN, **episode), feed=replace(FEED, icon=f"{odd}/5")))
    assert [number for number in range(1, 6) if encoded + b"/%d" % number not in document] == []
    assert odd.encode() not in document


@FORMATS
def test_languages_have_their_usual_case(name: str) -> None:
    shown = page(replace(FULL, language="zh-hant_tw"), feed=replace(FEED, language="en-us"))
    back = read_back(RENDERERS[name].render(shown))
    assert (back.feed.language, back.entries[0].language) == ("en-US", "zh-Hant-TW")


@pytest.mark.parametrize(
    ("written", "encoded"),
    [
        ("https://x.example/?a[]=1&b=%C3%BC#c", "https://x.example/?a%5B%5D=1&b=%C3%BC#c"),
        ("https://x.example/100%/a|b", "https://x.example/100%25/a%7Cb"),
        ("http://[<>]/", "http://%5B%3C%3E%5D/"),
        ("http://[::1]:80/ü", "http://[::1]:80/%C3%BC"),
        ("https://ü:ü@BÜCHER.example:8080/ü?ü", "https://%C3%BC:%C3%BC@xn--bcher-kva.example:8080/%C3%BC?%C3%BC"),
        ("https://xn--\N{SNOWMAN}.example/", "https://xn--%E2%98%83.example/"),
        ("", ""),
    ],
)
def test_encoded_addresses_mean_the_same(written: str, encoded: str) -> None:
    assert output_page.encode_address(written) == encoded
    assert output_page.encode_address(encoded) == encoded


def test_addresses_in_texts_are_encoded_where_they_are_attributes() -> None:
    written = '<a href="https://ü.example/a b?c&amp;d" title="ü ü">href="ü"</a> <img alt="ü" src="/ü &amp;">'
    expected = (
        '<a href="https://xn--tda.example/a%20b?c&amp;d" title="ü ü">href="ü"</a> <img alt="ü" src="/%C3%BC%20&amp;">'
    )
    assert output_page.encode_addresses_in(written) == expected
    assert output_page.encode_addresses_in(expected) == expected


@given(address=st.text("ab/:?#@[]%é \U0001f388\ud800", max_size=30))
def test_any_address_can_be_encoded(address: str) -> None:
    encoded = output_page.encode_address(f"https://{address}")
    assert re.fullmatch(r"[!-~]*", encoded)
    assert output_page.encode_address(encoded) == encoded


@FORMATS
def test_entries_come_back_as_they_were(name: str) -> None:
    entries = (FULL, PLAIN, UPDATED_ONLY)
    expected = tuple(_as_written(name, entry) for entry in entries)
    assert read_back(RENDERERS[name].render(page(*entries))).entries == expected


def _as_written(name: str, entry: ParsedEntry) -> ParsedEntry:
    """Returns the entry as the format has it: RSS names the feed that an entry is from, and not its site."""
    shown = output_page.present_entry(entry)
    if name != "rss" or shown.source is None:
        return shown
    return replace(shown, source=replace(shown.source, link="") if shown.source.url else None)


@FORMATS
def test_the_feed_comes_back_as_it_was(name: str) -> None:
    assert read_back(RENDERERS[name].render(page(FULL))).feed == FEED


@FORMATS
@pytest.mark.parametrize("source", [name for name in feed_corpus.NAMES if feed_corpus.parsed(name).entries])
def test_every_entry_of_the_corpus_comes_back(name: str, source: str) -> None:
    parsed = feed_corpus.parsed(source)
    dated = [entry if entry.published or entry.updated else replace(entry, updated=NOW) for entry in parsed.entries]
    shown = page(*dated, feed=replace(parsed.feed, self_link=ADDRESS))
    expected = tuple(_as_written(name, replace(entry, id=shown.unique_id(entry))) for entry in dated)
    if name != "rss":  # the id of an entry without a link is made of addresses, and counts as its link
        expected = tuple(replace(entry, link=entry.link or link_of_id(entry.id)) for entry in expected)
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
