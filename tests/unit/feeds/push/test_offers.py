"""Where feeds can be subscribed, by what they say."""

import pytest

from feeds.encoding import feed_to_json
from feeds.parsing.documents import Cloud, Feed
from feeds.pushing.discovering import Kind, Offer, offer, passing_over

URL = "https://feed.example/rss"


def offered(feed: Feed) -> Offer | None:
    return offer(feed_to_json(feed), {}, URL)


@pytest.mark.parametrize(
    ("cloud", "server", "procedure"),
    [
        (Cloud("c.example", 80, "/?rsscloud=notify", "", "http-post"), "http://c.example/?rsscloud=notify", ""),
        (
            Cloud("rpc.rsscloud.io", 5337, "/pleaseNotify", "", "http-post"),
            "http://rpc.rsscloud.io:5337/pleaseNotify",
            "",
        ),
        (Cloud("c.example", 443, "/notify", "", "https-post"), "https://c.example/notify", ""),
        (Cloud("c.example", 8443, "notify", "", "https-post"), "https://c.example:8443/notify", ""),
        (Cloud("2001:db8::1", 80, "/notify", "", ""), "http://[2001:db8::1]/notify", ""),
        (Cloud("c.example", 80, "/RPC2", "a.pleaseNotify", "xml-rpc"), "http://c.example/RPC2", "a.pleaseNotify"),
    ],
)
def test_a_cloud_is_asked_where_it_says(cloud: Cloud, server: str, procedure: str) -> None:
    assert offered(Feed(cloud=cloud)) == Offer(Kind.RSSCLOUD, server, URL, procedure)


def test_a_cloud_with_a_url_of_its_own_goes_before_the_element_without() -> None:
    found = offered(Feed(cloud=Cloud("c.example", 80, "/a", "", "http-post"), cloud_url="https://new.example/notify"))
    assert found == Offer(Kind.RSSCLOUD, "https://new.example/notify", URL)


@pytest.mark.parametrize(
    "cloud", [Cloud("c.example", 80, "/", "a.notify", "soap"), Cloud("c.example", 80, "/", "", "xml-rpc")]
)
def test_what_cannot_be_spoken_is_no_offer(cloud: Cloud) -> None:
    assert offered(Feed(cloud=cloud)) is None


@pytest.mark.parametrize(
    ("calls_itself", "known_as"),
    [
        ("http://feed.example/rss/", "http://feed.example/rss/"),
        ("https://elsewhere.example/rss", URL),
        ("", URL),
    ],
)
def test_a_cloud_knows_a_feed_by_what_it_calls_itself_unless_that_is_elsewhere(
    calls_itself: str, known_as: str
) -> None:
    found = offered(Feed(cloud_url="https://c.example/notify", self_link=calls_itself))
    assert found == Offer(Kind.RSSCLOUD, "https://c.example/notify", known_as)


def test_a_feed_that_says_nothing_offers_nothing() -> None:
    assert offered(Feed()) is None


def test_another_offer_has_another_digest_and_one_server_has_one() -> None:
    cloud = "https://new.example/notify"
    first, second = (offer({"cloud_url": cloud}, {}, url) for url in (URL, f"{URL}2"))
    assert first is not None
    assert second is not None
    assert first.digest != second.digest
    assert first.hub_digest == second.hub_digest
    assert first == offer({"cloud_url": cloud, "title": "A new title"}, {}, URL)


def test_a_hub_that_was_asked_in_vain_is_passed_over_as_long_as_there_is_another() -> None:
    said = feed_to_json(Feed(hubs=("https://one.example/", "https://two.example/"), cloud_url="https://c.example/"))
    linked: dict[str, object] = {}
    asked = []
    for _ in range(4):
        found = offer(said, linked, URL)
        assert found is not None
        asked.append(found.server)
        linked = passing_over(linked, found.server)
    assert asked == ["https://one.example/", "https://two.example/", "https://c.example/", "https://one.example/"]
