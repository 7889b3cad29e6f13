"""What of an address may be a secret."""

import pytest

from feeds import hiding


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
    assert hiding.secrets_of(url) == secrets


def test_texts_lose_secrets_and_addresses_with_secrets_go() -> None:
    said = {
        "id": "https://x.example/abcdef/7",
        "title": "At abcdef",
        "authors": [{"name": "Ann", "url": "https://x.example/abcdef"}],
        "enclosures": [{"url": "https://x.example/abcdef.mp3", "title": "Sound"}, {"url": "https://x.example/1.mp3"}],
        "published": "2026-11-01T12:00:00+00:00",
        "source": {"title": "abcdef", "url": "https://x.example/abcdef"},
        "cloud": {
            "domain": "x.example",
            "port": 80,
            "path": "/abcdef",
            "register_procedure": "",
            "protocol": "http-post",
        },
    }
    assert hiding.without(said, ("abcdef",)) == {
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
    assert hiding.shows(text, "http://blog.example/feed") is is_shown
