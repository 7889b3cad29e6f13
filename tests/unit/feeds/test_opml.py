"""Lists of feeds, as programs and people write them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.errors import OpmlError
from feeds.opml.outlines import FeedList, Limits, Subscription
from feeds.opml.reading import parse


def opml(body: str, head: str = "", declaration: str = '<?xml version="1.0" encoding="UTF-8"?>') -> bytes:
    return f'{declaration}<opml version="2.0"><head>{head}</head><body>{body}</body></opml>'.encode()


def feed(url: str = "https://one.example/feed", **attributes: str) -> str:
    said = "".join(f' {name}="{value}"' for name, value in ({"xmlUrl": url} | attributes).items())
    return f"<outline{said}/>"


def only(data: bytes) -> Subscription:
    [subscription] = parse(data).subscriptions
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


def test_feeds_stand_in_their_categories() -> None:
    found = parse(NESTED)
    assert found.title == "My feeds"
    assert [(each.title, each.categories) for each in found.subscriptions] == [
        ("One", (("News", "World"),)),
        ("Two", (("News",),)),
        ("Three", ()),
    ]


def test_what_is_said_of_a_feed_is_read() -> None:
    one = parse(NESTED).subscriptions[0]
    assert (one.address.url, one.site) == ("https://one.example/feed", "https://one.example/")
    assert (one.description, one.language) == ("All of it", "en")


def test_a_list_of_the_first_version_is_read() -> None:
    data = b"""<?xml version="1.0" encoding="ISO-8859-1"?>
    <opml version="1.0"><head><title>Caf\xe9</title></head>
    <body><outline type="rss" text="Caf\xe9" XMLURL="http://one.example/feed"/></body></opml>"""
    assert parse(data).title == only(data).title == "Café"


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
    assert (only(opml(outline)).title, only(opml(outline)).address.url) == ("One", "https://one.example/feed")


def test_categories_are_also_named_by_an_attribute() -> None:
    inside = f'<outline text="News">{feed(category="/Boston/Weather,news, ,/")}</outline>'
    assert only(opml(inside)).categories == (("News",), ("Boston", "Weather"), ("news",))


def test_feeds_below_a_feed_are_not_in_a_category_of_its_name() -> None:
    inside = '<outline text="News"><outline text="A" xmlUrl="https://a.example/"><outline text="B" '
    found = parse(opml(inside + 'xmlUrl="https://b.example/"/></outline></outline>'))
    assert [each.categories for each in found.subscriptions] == [(("News",),), (("News",),)]


def test_a_feed_that_stands_twice_is_one_in_both_places() -> None:
    found = parse(
        opml(
            f'<outline text="A">{feed("http://one.example/feed")}</outline>'
            f'<outline text="B">{feed("https://ONE.example:443/feed#x", title="One")}</outline>'
        )
    )
    assert found.duplicates == 1
    [one] = found.subscriptions
    assert (one.address.url, one.title, one.categories) == ("http://one.example/feed", "One", (("A",), ("B",)))


@pytest.mark.parametrize(
    ("outline", "why"),
    [
        (feed("ftp://one.example/feed", text="One"), "Only http and https are fetched."),
        ('<outline type="rss" text="One"/>', "There is no address."),
        ('<outline type="include" text="One" url="https://one.example/list.opml"/>', "It points to a page or another"),
        (feed("http://", text="One"), "This cannot be fetched:"),
    ],
)
def test_what_is_no_feed_is_left_out_with_the_reason(outline: str, why: str) -> None:
    found = parse(opml("\n\n" + outline + feed("https://two.example/")))
    [left_out] = found.left_out
    assert (left_out.line, left_out.text) == (3, "One")
    assert why in left_out.why
    assert len(found.subscriptions) == found.left_out_in_all == 1


def test_what_is_left_out_is_told_without_its_password() -> None:
    [left_out] = parse(opml(feed("ftp://me:secret@one.example/"))).left_out
    assert left_out.text == "ftp://one.example/"


def test_of_many_that_are_left_out_the_first_are_told() -> None:
    found = parse(opml(feed("ftp://one.example/") * 5), Limits(left_out=2))
    assert (len(found.left_out), found.left_out_in_all) == (2, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tom & Jerry", "Tom & Jerry"),
        ("a&b=c", "a&b=c"),
        ("Caf&eacute; &amp; more", "Café & more"),
        ("&nonsense; &#38;", "&nonsense; &"),
        ("bell\x07", "bell"),
    ],
)
def test_almost_xml_is_mended(text: str, expected: str) -> None:
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
        (opml(feed() * 10 + " " * 10_000), "more than the 5,000 that are read"),
    ],
)
def test_what_is_no_list_is_refused_with_a_sentence(data: bytes, why: str) -> None:
    with pytest.raises(OpmlError, match=r"^This .*\.$") as refused:
        parse(data, Limits(max_bytes=5_000, max_outlines=10, max_depth=5))
    assert why in str(refused.value)


def test_long_texts_are_cut() -> None:
    assert only(opml(feed(text="x" * 10_000))).title == "x" * 500


def test_a_list_of_many_feeds_is_read_at_once() -> None:
    data = opml("".join(feed(f"https://one.example/{number}") for number in range(5_000)))
    began = time.process_time()
    assert len(parse(data).subscriptions) == 5_000
    assert time.process_time() - began < 5


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode), st.text(max_size=99).map(opml)))
def test_whatever_comes_is_a_list_or_refused(data: bytes) -> None:
    try:
        assert isinstance(parse(data), FeedList)
    except OpmlError as refused:
        assert str(refused).startswith("This")  # noqa: PT017
