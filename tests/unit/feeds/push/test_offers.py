"""The hubs and clouds that feeds name."""

import pytest

from feeds.parser.documents import Cloud, FeedHead, encode_fields
from feeds.push.kinds import PushKind
from feeds.push.offers import PushOffer, find_offer, pass_over_server

URL = "https://feed.example/rss"


def offered(feed: FeedHead) -> PushOffer | None:
    return find_offer(encode_fields(feed), {}, URL)


@pytest.mark.parametrize(
    ("cloud", "server", "procedure"),
    [
        (Cloud("c.example", 80, "/?rsscloud=notify", "", "http-post"), "http://c.example/?rsscloud=notify", ""),
        (Cloud("c.example", 5337, "/notify#1", "", "http-post"), "http://c.example:5337/notify", ""),
        (Cloud("c.example", 443, "/notify", "", "https-post"), "https://c.example/notify", ""),
        (Cloud("c.example", 8443, "notify", "", "https-post"), "https://c.example:8443/notify", ""),
        (Cloud("2001:db8::1", 80, "/notify", "", ""), "http://[2001:db8::1]/notify", ""),
        (Cloud("c.example", 80, "/RPC2", "a.pleaseNotify", "xml-rpc"), "http://c.example/RPC2", "a.pleaseNotify"),
    ],
)
def test_a_cloud_is_asked_where_it_says(cloud: Cloud, server: str, procedure: str) -> None:
    assert offered(FeedHead(cloud=cloud)) == PushOffer(PushKind.RSSCLOUD, server, URL, procedure)


def test_a_cloud_with_a_url_of_its_own_goes_before_the_element_without() -> None:
    cloud = Cloud("c.example", 80, "/a", "", "http-post")
    found = offered(FeedHead(cloud=cloud, cloud_url="https://new.example/notify"))
    assert found == PushOffer(PushKind.RSSCLOUD, "https://new.example/notify", URL)


@pytest.mark.parametrize(
    "cloud", [None, Cloud("c.example", 80, "/", "a.notify", "soap"), Cloud("c.example", 80, "/", "", "xml-rpc")]
)
def test_what_cannot_be_spoken_is_no_offer(cloud: Cloud | None) -> None:
    assert offered(FeedHead(cloud=cloud)) is None


@pytest.mark.parametrize(
    ("calls_itself", "known_as"),
    [("http://feed.example/rss/", "http://feed.example/rss/"), ("https://elsewhere.example/rss", URL), ("", URL)],
)
def test_a_cloud_knows_a_feed_by_what_it_calls_itself_unless_it_is_elsewhere(calls_itself: str, known_as: str) -> None:
    found = offered(FeedHead(cloud_url="https://c.example/notify", self_link=calls_itself))
    assert found == PushOffer(PushKind.RSSCLOUD, "https://c.example/notify", known_as)


def test_another_offer_has_another_digest_and_one_server_has_one() -> None:
    cloud = "https://new.example/notify"
    first, second = (find_offer({"cloud_url": cloud}, {}, url) for url in (URL, f"{URL}2"))
    assert first is not None
    assert second is not None
    assert first.digest != second.digest
    assert first.hub_digest == second.hub_digest
    assert first == find_offer({"cloud_url": cloud, "title": "A new title"}, {}, URL)


def test_a_hub_that_was_asked_in_vain_is_passed_over_as_long_as_there_is_another() -> None:
    said = encode_fields(
        FeedHead(hubs=("https://one.example/", "https://two.example/"), cloud_url="https://c.example/")
    )
    linked: dict[str, object] = {}
    asked = []
    for _ in range(4):
        found = find_offer(said, linked, URL)
        assert found is not None
        asked.append(found.server)
        linked = pass_over_server(linked, found.server)
    assert asked == ["https://one.example/", "https://two.example/", "https://c.example/", "https://one.example/"]
