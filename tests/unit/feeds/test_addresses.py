"""Addresses of feeds, as people write them, and their likely secrets."""

import pytest

from feeds import addresses
from feeds.addresses import FeedLocation, read_address
from feeds.errors import FeedAddressError


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://one.example/feed", "https://one.example/feed"),
        ("  http://One.example:80/feed#top ", "http://one.example/feed"),
        ("feed://one.example/feed", "http://one.example/feed"),
        ("feed:one.example/feed", "http://one.example/feed"),
        ("feed:https://one.example/feed", "https://one.example/feed"),
        ("FEED://https://one.example/feed", "https://one.example/feed"),
        ("pcast://one.example/feed", "http://one.example/feed"),
        ("one.example", "https://one.example/"),
        ("//one.example/feed", "https://one.example/feed"),
        ("one.example:8080/feed", "https://one.example:8080/feed"),
        ("https://one.example/a feed?x=1&y=ä", "https://one.example/a%20feed?x=1&y=%C3%A4"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    ],
)
def test_an_address_is_read_as_it_is_meant(text: str, url: str) -> None:
    assert read_address(text) == FeedLocation(url)


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [("http://me@one.example/", "me", ""), ("https://m%40e:p%3Aw:x@one.example/", "m@e", "p:w:x")],
)
def test_user_and_password_are_told_apart_from_the_address(text: str, user: str, password: str) -> None:
    assert (read_address(text).user, read_address(text).password) == (user, password)
    assert "@" not in read_address(text).url


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "feed:", "news", "/feed", "http://", "https://" + "a" * 3000, "https://one.example/\x00"),
        *("mailto:me@one.example", "javascript:alert(1)", "ftp://one.example/"),
        *("https://one.example:99999/", "https://0x7f.1/"),
    ],
)
def test_what_is_no_address_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(FeedAddressError, match=r"^[A-Z].*\.$"):
        read_address(text)


SAME = ["http://one.example/feed?a=1", "HTTPS://ONE.example:443/feed?a=1", "feed://one.example/feed?a=1#x"]
OTHER = ["https://one.example/feed", "https://one.example:8443/feed?a=1", "https://two.example/feed?a=1"]
OTHER += ["https://me@one.example/feed?a=1", "https://one.example/Feed?a=1", "https://one.example/feed?a=2"]


def test_addresses_of_one_feed_have_one_key_and_those_of_other_feeds_others() -> None:
    assert len({read_address(text).key for text in SAME}) == 1
    assert len({read_address(text).key for text in [SAME[0], *OTHER]}) == 1 + len(OTHER)


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://blog.example/international-news/feed.xml", ()),
        ("https://blog.example/?p=7&type=rss", ()),
        ("https://blog.example/feed?token=abcdef", ("token=abcdef",)),
        ("https://blog.example/feed?abcdef", ("abcdef",)),
        ("https://blog.example/feed?category=technology&lang=english&since=2026-11-01", ()),  # as in links of entries
        ("https://blog.example/feed?k=a8f93kd2", ("k=a8f93kd2",)),
        ("https://blog.example/u/9f86d081884c7d659a2f/rss", ("9f86d081884c7d659a2f",)),
        ("https://blog.example/feed?k=9f86d081884c7d659a2f", ("k=9f86d081884c7d659a2f", "9f86d081884c7d659a2f")),
    ],
)
def test_values_and_what_looks_like_a_token_may_be_secret(url: str, secrets: tuple[str, ...]) -> None:
    assert addresses.find_secrets(url) == secrets


def test_texts_lose_secrets_and_addresses_with_secrets_go() -> None:
    said = {
        "id": "https://x.example/abcdef/7",
        "title": "At abcdef",
        "authors": [{"name": "Ann", "url": "https://x.example/abcdef"}],
        "enclosures": [{"url": "https://x.example/abcdef.mp3", "title": "Sound"}, {"url": "https://x.example/1.mp3"}],
        "published": "2026-11-01T12:00:00+00:00",
        "source": {"title": "abcdef", "url": "https://x.example/abcdef"},
        "cloud": {"domain": "x.example", "port": 80, "path": "/abcdef", "register_procedure": "", "protocol": ""},
    }
    assert addresses.leave_out_secrets(said, ("abcdef",)) == {
        "title": "At …",
        "authors": [{"name": "Ann"}],
        "enclosures": [{"url": "https://x.example/1.mp3"}],
        "published": "2026-11-01T12:00:00+00:00",
        "source": {"title": "…"},
    }


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [("https://blog.example/feed", True), ("Blog.example/FEED", True), ("Blog.example", False), ("The feed", False)],
)
def test_a_text_that_is_the_address_shows_it(text: str, is_shown: bool) -> None:
    assert addresses.shows_address(text, "http://blog.example/feed") is is_shown
