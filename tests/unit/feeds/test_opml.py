"""Lists of feeds, as programs and people write them, and written lists read again."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.addresses import FeedLocation
from feeds.errors import OpmlError
from feeds.opml import ListedFeed, OpmlLimits, parse_opml, write_opml


def opml(body: str, head: str = "", declaration: str = '<?xml version="1.0" encoding="UTF-8"?>') -> bytes:
    return f'{declaration}<opml version="2.0"><head>{head}</head><body>{body}</body></opml>'.encode()


def feed(url: str = "https://one.example/feed", **attributes: str) -> str:
    said = "".join(f' {name}="{value}"' for name, value in ({"xmlUrl": url} | attributes).items())
    return f"<outline{said}/>"


def only(data: bytes) -> ListedFeed:
    [subscription] = parse_opml(data).subscriptions
    return subscription


NESTED = opml(
    """
    <outline text="News">
      <outline text="World" title="The world">
        <outline type="rss" text="One" xmlUrl="https://one.example/feed" htmlUrl="https://one.example/"
                 description="All of it" language="en"/>
      </outline>
      <outline type="atom" text="two" title="Two" xmlUrl="https://two.example/feed"/>
    </outline>
    <outline text="Three" xmlUrl="https://three.example/feed"/>
    """,
    "<title> My\n feeds </title><dateCreated>Sat, 01 Nov 2026 12:00:00 GMT</dateCreated>",
)


def test_feeds_stand_in_their_categories_with_what_is_said_of_them() -> None:
    found = parse_opml(NESTED)
    assert found.title == "My feeds"
    urls = [FeedLocation(f"https://{name}.example/feed") for name in ("one", "two", "three")]
    assert found.subscriptions == (
        ListedFeed(urls[0], "One", "https://one.example/", "All of it", "en", (("News", "World"),)),
        ListedFeed(urls[1], "Two", categories=(("News",),)),
        ListedFeed(urls[2], "Three"),
    )


def test_a_list_of_the_first_version_is_read() -> None:
    data = b"""<?xml version="1.0" encoding="ISO-8859-1"?>
    <opml version="1.0"><head><title>Caf\xe9</title></head>
    <body><outline type="rss" text="Caf\xe9" XMLURL="http://one.example/feed"/></body></opml>"""
    assert parse_opml(data).title == only(data).title == "Café"


@pytest.mark.parametrize(
    "outline",
    [
        feed(text="One"),
        '<outline TEXT="One" XmlUrl="https://one.example/feed"/>',
        '<outline type="rss" text="One" url="https://one.example/feed"/>',
        '<OUTLINE text="One" xmlUrl="https://one.example/feed"></OUTLINE>',
        '<outline text="One" xmlUrl=" https://one.example/feed "/>',
    ],
)
def test_names_of_attributes_come_in_any_case(outline: str) -> None:
    assert only(opml(outline)) == ListedFeed(FeedLocation("https://one.example/feed"), "One")


def test_categories_are_also_named_by_an_attribute() -> None:
    inside = f'<outline text="News">{feed(category="/Boston/Weather,news, ,/")}</outline>'
    assert only(opml(inside)).categories == (("News",), ("Boston", "Weather"), ("news",))


def test_feeds_below_a_feed_are_not_in_a_category_of_its_name() -> None:
    inside = '<outline text="News"><outline text="A" xmlUrl="https://a.example/"><outline text="B" '
    found = parse_opml(opml(inside + 'xmlUrl="https://b.example/"/></outline></outline>'))
    assert [each.categories for each in found.subscriptions] == [(("News",),), (("News",),)]


def test_a_feed_that_stands_twice_is_one_in_both_places() -> None:
    again = feed("https://ONE.example:443/feed#x", title="One")
    places = f'<outline text="A">{feed("http://one.example/feed")}</outline><outline text="B">{again}</outline>'
    found = parse_opml(opml(places))
    one = ListedFeed(FeedLocation("http://one.example/feed"), "One", categories=(("A",), ("B",)))
    assert (found.duplicates, found.subscriptions) == (1, (one,))


@pytest.mark.parametrize(
    ("outline", "why"),
    [
        (feed("ftp://one.example/feed", text="One"), "Only http and https are fetched."),
        ('<outline type="rss" text="One"/>', "Enter an address."),
        ('<outline type="include" text="One" url="https://one.example/list.opml"/>', "A link to a page or another"),
        (feed("http://", text="One"), "The address cannot be fetched:"),
    ],
)
def test_what_is_no_feed_is_left_out_with_the_reason(outline: str, why: str) -> None:
    found = parse_opml(opml("\n\n" + outline + feed("https://two.example/")))
    [left_out] = found.left_out
    assert (left_out.line, left_out.text) == (3, "One")
    assert why in left_out.why
    assert len(found.subscriptions) == found.left_out_in_all == 1


def test_of_many_that_are_left_out_the_first_are_told_without_passwords() -> None:
    found = parse_opml(opml(feed("ftp://me:secret@one.example/") * 5), OpmlLimits(left_out=2))
    assert ([each.text for each in found.left_out], found.left_out_in_all) == (["ftp://one.example/"] * 2, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tom & Jerry", "Tom & Jerry"),
        ("a&b=c", "a&b=c"),
        ("Caf&eacute; &amp; more", "Café & more"),
        ("&nonsense; &#38;", "&nonsense; &"),
        ("bell\x07", "bell"),
        ("x" * 10_000, "x" * 500),
    ],
)
def test_almost_xml_is_mended_and_long_texts_are_cut(text: str, expected: str) -> None:
    assert only(opml(feed(text=text))).title == expected
    assert only(opml(feed("https://one.example/?a=1&b=2"))).address.url == "https://one.example/?a=1&b=2"


@pytest.mark.parametrize(
    "encode",
    [
        pytest.param(lambda text: text.encode("utf-8-sig"), id="byte order mark"),
        pytest.param(lambda text: b"\n  " + text.encode(), id="white space in front"),
        pytest.param(lambda text: text.replace("UTF-8", "UTF-16").encode("utf-16"), id="utf-16"),
        pytest.param(lambda text: text.replace("UTF-8", "windows-1252").encode("cp1252"), id="windows-1252"),
        pytest.param(lambda text: text.replace("UTF-8", "gb18030").encode("gb18030"), id="of many bytes"),
        pytest.param(lambda text: text.replace("UTF-8", "base64").encode("cp1252"), id="not a text's"),
        pytest.param(lambda text: text.encode("cp1252"), id="not what it says"),
        pytest.param(lambda text: text.replace("UTF-8", "klingon").encode(), id="an encoding that nobody has"),
        pytest.param(lambda text: text.partition("?>")[2].encode(), id="no declaration"),
    ],
)
def test_any_encoding_is_read(encode) -> None:  # type: ignore[no-untyped-def]
    assert only(encode(opml(feed(text="Café")).decode())).title == "Café"


BOMB = '<!DOCTYPE opml [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no element found in line 1"),
        (b"hello", "syntax error in line 1"),
        (b"<rss version='2.0'/>", "begins with <rss>"),
        (b"<!DOCTYPE html><html><body>Log in</body></html>", "document type"),
        (opml(feed())[:-7], "no element found"),
        (opml("<outline>"), "mismatched tag"),
        (opml(feed(text="&b;"), declaration=BOMB), "document type"),
        (opml("", declaration='<!DOCTYPE opml SYSTEM "file:///etc/passwd">'), "document type"),
        (opml("<outline text='x'>" * 9 + "</outline>" * 9), "nested more than 5 deep"),
        (opml(feed() * 11), "more than 10 outlines"),
        (opml(feed() * 10 + " " * 10_000), "the limit is 5,000"),
    ],
)
def test_what_is_no_list_is_refused_with_a_sentence(data: bytes, why: str) -> None:
    with pytest.raises(OpmlError, match=r"^This .*\.$") as refused:
        parse_opml(data, OpmlLimits(max_bytes=5_000, max_outlines=10, max_depth=5))
    assert why in str(refused.value)


CREATED = datetime(2026, 11, 4, 12, tzinfo=UTC)
ONE = ListedFeed(FeedLocation("https://one.example/feed?a=1&b=2"), "One & <all>", "https://one.example/")

TEXTS = st.text("aZé漢🙂 \u00a0\u2028&<>\"'/,;#%=", max_size=12).map(lambda text: " ".join(text.split()))
NAMES = TEXTS.filter(bool)
SUBSCRIPTIONS = st.lists(
    st.builds(
        ListedFeed,
        address=st.integers(0, 99).map(lambda number: FeedLocation(f"https://{number}.example/feed?x={number}&y")),
        title=TEXTS,
        site=TEXTS,
        description=TEXTS,
        language=TEXTS,
        categories=st.lists(st.lists(NAMES, min_size=1, max_size=3).map(tuple), unique=True, max_size=3).map(tuple),
    ),
    unique_by=lambda each: each.address,
    max_size=8,
)


def sorted_out(subscriptions: Iterable[ListedFeed]) -> list[ListedFeed]:
    """By address: categories give a list its order."""
    alike = [replace(each, categories=tuple(sorted(each.categories))) for each in subscriptions]
    return sorted(alike, key=lambda each: each.address.url)


@settings(max_examples=20)
@given(SUBSCRIPTIONS, TEXTS)
def test_a_list_comes_back_as_it_was(subscriptions: list[ListedFeed], title: str) -> None:
    found = parse_opml(write_opml(subscriptions, title, CREATED))
    assert (found.title, found.left_out) == (title, ())
    assert sorted_out(found.subscriptions) == sorted_out(subscriptions)


def test_a_list_is_as_the_specification_has_it() -> None:
    root = ET.fromstring(write_opml([ONE], "Feeds", CREATED))
    assert (root.tag, root.get("version")) == ("opml", "2.0")
    assert root.findtext("head/dateCreated") == "Wed, 04 Nov 2026 12:00:00 GMT"
    [outline] = root.findall("body/outline")
    named = {"type": "rss", "text": "One & <all>", "title": "One & <all>", "htmlUrl": "https://one.example/"}
    assert outline.attrib == {**named, "xmlUrl": "https://one.example/feed?a=1&b=2"}


def test_categories_that_share_one_around_them_stand_in_it_once() -> None:
    feeds = [
        ListedFeed(FeedLocation(f"https://{name}.example/"), categories=(("News", name),)) for name in ("Here", "There")
    ]
    [news] = ET.fromstring(write_opml(feeds, "", CREATED)).findall("body/outline")
    assert [folder.get("text") for folder in news] == ["Here", "There"]


def test_characters_that_xml_has_not_are_left_out() -> None:
    [found] = parse_opml(write_opml([ListedFeed(ONE.address, "a\x00b\ud800c")], "\x07", CREATED)).subscriptions
    assert found.title == "abc"
