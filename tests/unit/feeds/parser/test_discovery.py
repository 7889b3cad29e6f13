"""Discovery of feeds, hubs and icons on a web page."""

import pytest

from feeds.parser.discovery import FeedAddress, discover_feeds, discover_hubs, discover_icon, is_icon

URL = "https://site.example.org/blog/"


def urls(page: bytes) -> list[str]:
    return [found.url for found in discover_feeds(page, URL)]


def test_announced_feeds_come_in_their_order_and_comments_last() -> None:
    page = b"""<html><head><link rel="alternate" type="application/rss+xml" title="Comments" href="/comments/feed/">
        <link rel="alternate" type="application/atom+xml" title=" The  blog " href="atom.xml">
        <LINK REL="Alternate home" TYPE="application/feed+json" HREF="https://cdn.example.org/feed.json">
        <link rel="alternate" hreflang="de" href="/de/"><link rel="stylesheet" type="text/css" href="/feed.css">"""
    assert discover_feeds(page, URL) == [
        FeedAddress("https://site.example.org/blog/atom.xml", "The blog", "application/atom+xml"),
        FeedAddress("https://cdn.example.org/feed.json", "", "application/feed+json"),
        FeedAddress("https://site.example.org/comments/feed/", "Comments", "application/rss+xml"),
    ]


def test_addresses_are_relative_to_the_pages_base() -> None:
    page = b'<base href="/other/"><link rel=alternate type=application/rss+xml href=rss.xml>'
    assert urls(page) == ["https://site.example.org/other/rss.xml"]


def test_types_of_many_things_need_an_address_of_feeds() -> None:
    page = b"""<link rel=alternate type=application/json href="/wp-json/wp/v2/pages/2">
        <link rel=alternate type=application/json href="/feed.json">
        <link rel=alternate type=text/xml href="/oembed?x=1">"""
    assert urls(page) == ["https://site.example.org/feed.json"]


def test_links_that_look_like_feeds_count_where_none_is_announced() -> None:
    page = b"""<body><a href="/feeders">no</a><a href="/about">no</a><a href="/feed/">Feed</a>
        <a href="feed://site.example.org/rss">RSS</a><a href="/index.xml">x</a><a href="javascript:feed">no</a>"""
    assert urls(page) == [
        "https://site.example.org/feed/",
        "http://site.example.org/rss",
        "https://site.example.org/index.xml",
    ]


@pytest.mark.parametrize(
    "page", [b"", b"\0", b"<", b"plain", b"\xff\xfe", b"<link rel=alternate type=application/rss+xml>"]
)
def test_a_page_without_feeds_has_none(page: bytes) -> None:
    assert discover_feeds(page, URL) == []


def test_an_address_is_named_once_and_the_page_itself_never() -> None:
    link = b'<link rel=alternate type=application/rss+xml href="%s">'
    page = link % b"/a.xml" + link % b"/a.xml" + link % URL.encode()
    assert urls(page) == ["https://site.example.org/a.xml"]


def test_a_page_of_any_size_is_bounded() -> None:
    links = b"".join(b'<link rel=alternate type=application/rss+xml href="/%d.xml">' % place for place in range(5_000))
    assert len(discover_feeds(links, URL)) == 50


def test_the_hubs_of_a_page_and_its_own_address_are_found() -> None:
    page = (
        b"<head><base href='/blog/'><link rel='HUB' href='https://hub.example/'><link rel='hub' href='../hub'>"
        b"<link rel='self alternate' href='./'><link rel=hub href='javascript:x'><link rel=self href=/other></head>"
    )
    found = discover_hubs(page, "https://example.org/x/y")
    assert found == (("https://hub.example/", "https://example.org/hub"), "https://example.org/blog/")
    assert discover_hubs(b"", "https://example.org/") == ((), "")


@pytest.mark.parametrize(
    ("links", "icon"),
    [
        ('<link rel="shortcut icon" href="/a.ico">', "https://site.example.org/a.ico"),
        (
            '<link rel=icon sizes=16x16 href=s.png><link rel=icon sizes="48x48" href=m.png><link rel=icon href=n.png>',
            "https://site.example.org/blog/m.png",
        ),
        ('<link rel=icon sizes="16x16 32x32" href=a.ico><link rel=icon sizes=64x64 href=b.png>', f"{URL}a.ico"),
        ("<link rel=apple-touch-icon href=t.png><link rel=icon sizes=any href=i.svg>", f"{URL}i.svg"),
        ("<link rel=apple-touch-icon href=t.png>", f"{URL}t.png"),
        ('<base href="https://cdn.example.org/"><link rel=icon href=i.png>', "https://cdn.example.org/i.png"),
        ('<link rel=mask-icon href=m.svg><link rel=icon href="data:image/png;base64,AAAA"><link rel=icon>', ""),
        (f'<link rel=icon href="/{"x" * 2_000}">', ""),
        ("", ""),
    ],
)
def test_the_icon_is_the_one_that_is_best_for_a_small_place(links: str, icon: str) -> None:
    assert discover_icon(f"<html><head>{links}</head><body>".encode(), URL) == icon


@pytest.mark.parametrize(
    ("body", "is_picture"),
    [
        (b"\x00\x00\x01\x00\x01", True),
        (b"\x89PNG\r\n", True),
        (b'\n<svg xmlns="">', True),
        (b"<?xml version", True),
        (b"<!doctype html>", False),
        (b"", False),
        (b"Not found", False),
    ],
)
def test_pictures_are_known_by_their_beginnings(body: bytes, is_picture: bool) -> None:
    assert is_icon(body) is is_picture
