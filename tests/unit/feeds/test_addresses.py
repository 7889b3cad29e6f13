"""Addresses of feeds, as people write them."""

import pytest

from feeds.addresses import Address, read
from feeds.errors import AddressError


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
    assert read(text) == Address(url)


@pytest.mark.parametrize(
    ("text", "user", "password"),
    [("http://me@one.example/", "me", ""), ("https://m%40e:p%3Aw:x@one.example/", "m@e", "p:w:x")],
)
def test_user_and_password_are_told_apart_from_the_address(text: str, user: str, password: str) -> None:
    assert (read(text).user, read(text).password) == (user, password)
    assert "@" not in read(text).url


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "feed:", "news", "/feed", "http://", "https://" + "a" * 3000, "https://one.example/\x00"),
        *("mailto:me@one.example", "javascript:alert(1)", "ftp://one.example/"),
        *("https://one.example:99999/", "https://0x7f.1/"),
    ],
)
def test_what_is_no_address_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(AddressError, match=r"^[A-Z].*\.$"):
        read(text)


SAME = ["http://one.example/feed?a=1", "HTTPS://ONE.example:443/feed?a=1", "feed://one.example/feed?a=1#x"]
OTHER = ["https://one.example/feed", "https://one.example:8443/feed?a=1", "https://two.example/feed?a=1"]
OTHER += ["https://me@one.example/feed?a=1", "https://one.example/Feed?a=1", "https://one.example/feed?a=2"]


def test_addresses_of_one_feed_have_one_key() -> None:
    assert len({read(text).key for text in SAME}) == 1


def test_addresses_of_other_feeds_have_others() -> None:
    assert len({read(text).key for text in [SAME[0], *OTHER]}) == 1 + len(OTHER)
