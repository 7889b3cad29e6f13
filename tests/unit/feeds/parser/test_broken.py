"""The corpus, broken at random: it is read or refused, never anything else."""

import random
from contextlib import suppress

import pytest

from feeds.errors import ParseError
from feeds.parser import discovery, reader
from tests.support import feed_corpus
from tests.support.feed_corpus import entry_of, read

TOKENS = (
    *(b"<", b">", b"&", b"]]>", b"<![CDATA[", b"<!--", b"<?", b'"', b"xmlns:", b"&#0;", b"&#xFFFFFFFF;", b"\x00"),
    *(b"<item>", b"</item>", b"<entry>", b"\xed\xa0\x80", b'type="xhtml"', b'mode="base64"', b' xml:base="http://[x"'),
    *(b"<!DOCTYPE x [", b"http://[::1", b"{", b"[", b"null", b"\\ud800", b"<channel>", b'<link href="http://[">'),
)


def _broken(dice: random.Random) -> bytes:
    data = bytearray(feed_corpus.data(dice.choice(feed_corpus.NAMES)))
    for _ in range(dice.randint(1, 8)):
        place = dice.randrange(len(data) + 1)
        if dice.random() < 0.5:
            data[place:place] = dice.choice(TOKENS)
        else:
            del data[place : place + dice.randint(1, 40)]
    return bytes(data)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_broken_feed_is_read_or_refused(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(15):
        data = _broken(dice)
        with suppress(ParseError):
            reader.parse_feed(data, "", feed_corpus.URL, feed_corpus.FETCHED_AT)
        discovery.discover_feeds(data, feed_corpus.URL)


@pytest.mark.parametrize("host", ["ex ample.org", "ex<ample.org", "x:99999", "x:y", "[::1", "%41.org"])
def test_hosts_that_are_none_are_left_out(host: str) -> None:
    link = f"<link>https://{host.replace('<', '&lt;')}/</link>"
    entry = entry_of(link + "<description>&lt;a href='x'&gt;x&lt;/a&gt;</description>")
    assert entry.link == ""
    assert 'href="https://feeds.example.org/blog/x"' in entry.content


def test_a_base_that_no_browser_takes_leaves_relative_addresses_out() -> None:
    entry = entry_of("<link>https://xn--\N{SNOWMAN}/</link><description>&lt;a href='x'&gt;x&lt;/a&gt;</description>")
    assert "<a rel=" in entry.content


def test_bases_are_relative_to_the_document_also_where_it_is_not_well_formed() -> None:
    document = '<feed xmlns="http://www.w3.org/2005/Atom" xml:base="inner/"><title>T</title><entry><title>x</title>'
    feed = read(document + '<content type="html">&lt;a href="y"&gt;x&lt;/a&gt;</content><br></entry></feed>')
    assert feed.reader == "feedparser"
    assert 'href="https://feeds.example.org/blog/inner/y"' in feed.entries[0].content
