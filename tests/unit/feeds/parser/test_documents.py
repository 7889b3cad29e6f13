"""Hostile feeds, which would cost minutes or gigabytes without bounds."""

import tracemalloc
from contextlib import suppress
from datetime import timedelta

import pytest

from feeds.errors import ParseError
from feeds.parser.documents import FeedLimits
from tests.support.feed_corpus import FETCHED_AT, entry_of, read
from tests.support.processor_time import within

RSS = '<rss version="2.0"><channel><title>T</title>{}</channel></rss>'
ITEM = "<item><title>{0}</title><pubDate>{1:%a, %d %b %Y %H:%M:%S} GMT</pubDate></item>"


def _many(number: int) -> str:
    """Entries from the oldest to the newest."""
    moments = (FETCHED_AT - timedelta(minutes=number - place) for place in range(number))
    return RSS.format("".join(ITEM.format(place, moment) for place, moment in enumerate(moments)))


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMBS = {
    "billion laughs": f'<!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}]>' + RSS.format("<item><title>&l9;</title></item>"),
    "quadratic": f'<!DOCTYPE x [<!ENTITY a "{"a" * 50_000}">]>'
    + RSS.format(f"<item><title>{'&a;' * 50_000}</title></item>"),
}


def test_more_bytes_than_are_read_are_refused() -> None:
    with pytest.raises(ParseError, match="at most 1,000 are read"):
        read(_many(50), FeedLimits(bytes=1_000))


def test_of_many_entries_the_newest_are_kept_in_their_order() -> None:
    feed = read(_many(500), FeedLimits(entries=3))
    assert [entry.title for entry in feed.entries] == ["497", "498", "499"]
    assert (feed.found, feed.notes) == (500, ("3 of 500 entries were read.",))


def test_of_entries_without_dates_the_first_are_kept() -> None:
    items = "".join(f"<item><title>{place}</title></item>" for place in range(10))
    assert [entry.title for entry in read(RSS.format(items), FeedLimits(entries=2)).entries] == ["0", "1"]


def test_memory_goes_by_what_is_kept_and_not_by_what_came() -> None:
    document = _many(500)
    read(document, FeedLimits(entries=10))  # what the first reading imports stays
    tracemalloc.start()
    try:
        read(document, FeedLimits(entries=10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(document)  # the document itself, encoded and decoded


@pytest.mark.parametrize("bomb", BOMBS)
def test_entities_never_grow(bomb: str) -> None:
    feed = read(BOMBS[bomb])
    assert len(feed.entries[0].title) <= FeedLimits().text_characters
    assert "Entity declarations are ignored" in feed.notes[0]


def test_nothing_outside_of_the_document_is_read() -> None:
    declared = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname"><!ENTITY % p SYSTEM "http://127.0.0.1:9/"> %p;]>'
    assert read(declared + RSS.format("<item><title>a&e;b</title></item>")).entries[0].title == "a&e;b"


def test_texts_are_cut_and_long_addresses_left_out() -> None:
    limits = FeedLimits(content_characters=100, text_characters=10, url_characters=30, parts=2)
    item = f"<title>{'t' * 50}</title><link>https://a.example/{'x' * 50}</link><description>{'d' * 500}</description>"
    item += "<category>a</category><category>b</category><category>c</category>"
    entry = read(RSS.format(f"<item>{item}</item>"), limits).entries[0]
    assert (entry.title, entry.link, entry.content) == ("t" * 10, "", "d" * 100)
    assert len(entry.categories) == 2


def test_an_entry_has_few_people_and_short_names() -> None:
    limits = FeedLimits(people=2, part_characters=5, text_characters=7)
    people = "".join(f"<dc:creator>{name * 9}</dc:creator>" for name in "abc")
    item = f"{people}<category domain='https://a.example/tags'>{'t' * 9}</category>"
    document = RSS.format(f"<item><title>x</title>{item}</item>").replace(
        "<rss ", '<rss xmlns:dc="http://purl.org/dc/elements/1.1/" '
    )
    entry = read(document, limits).entries[0]
    assert [author.name for author in entry.authors] == ["aaaaaaa", "bbbbbbb"]
    assert [(each.term, each.scheme) for each in entry.categories] == [("ttttt", "")]


def test_what_feedparser_is_given_is_shortened_to_whole_entries() -> None:
    broken = _many(50).replace("<channel>", "<channel><br>")
    feed = read(broken, FeedLimits(loose_entries=5))
    assert [entry.title for entry in feed.entries] == ["0", "1", "2", "3", "4"]
    assert feed.reader == "feedparser"
    assert feed.notes[-1] == "5 of 50 entries were read."
    assert 10 < len(read(broken, FeedLimits(loose_characters=len(broken) // 2)).entries) < 40


@pytest.mark.parametrize(
    "markup",
    [
        pytest.param("<p>" + "".join(f"<b id={place}>" for place in range(400)) + "<p>x" * 40_000, id="formatting"),
        *("<div>" * 100_000, "<a " * 100_000, "<table><tr>" * 50_000, "&" * 100_000, "<!--" * 100_000),
        "<p title='" * 50_000,
    ],
    ids=lambda markup: markup[:9],
)
def test_markup_takes_time_by_its_length(markup: str) -> None:
    with within(2):
        entry_of(f"<description><![CDATA[{markup}]]></description>")


@pytest.mark.parametrize(
    "document",
    [
        RSS.format("<a>" * 100_000),
        RSS.format("< & " * 100_000),
        RSS.format("<item><description>" + "<![CDATA[" * 100_000),
        RSS.format("<!--" * 200_000),
        RSS.format("".join(f"<p{place}:x/>" for place in range(50_000))),
        RSS.format(f"<item><description>{''.join(f'<p{place}:x/>' for place in range(500))}</description></item>"),
        *("<!DOCTYPE x [" + '"' * 500_000, "<!DOCTYPE x " + "<!--" * 25_000),
        RSS.format(" " * 2_000_000 + "<"),
        RSS.format("<item><title>x" * 20_000),
        *("x" * 2_000_000, "<?xml " * 200_000, "<" * 200_000),
        '{"items": ' + "[" * 1_000_000,
        '{"items": [{"id": ' + "9" * 1_000_000 + "}]}",
    ],
    ids=lambda document: document[35:60],
)
def test_nonsense_takes_time_by_its_length_and_is_refused_at_worst(document: str) -> None:
    with within(3), suppress(ParseError):
        read(document, FeedLimits(loose_characters=20_000))
