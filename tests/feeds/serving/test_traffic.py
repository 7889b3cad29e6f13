import pytest
from django.conf import settings

from feeds.serving.traffic import asked
from resources.traffic import naming
from resources.traffic.asked import Asked


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("/feeds/sea.atom", Asked("feed", "atom", "feed:sea:atom:", noted="sea")),
        ("/feeds/sea.json", Asked("feed", "json", "feed:sea:json:", noted="sea")),
        ("/feeds/sea/", Asked("feed", "html", "feed:sea:html:")),
        ("/feeds/all.rss", Asked("feeds", "rss", "feeds:all:rss:")),
        ("/feeds/category/sea.rss", Asked("feeds", "rss", "feeds:sea:rss:")),
        ("/feeds/", Asked("feeds", "html", "feeds:all:html:")),
        ("/feeds/sea", None),
        ("/feeds/sea.xml", None),
    ],
)
def test_programs_that_fetch_one_feed_are_its_readers(address: str, found: Asked | None) -> None:
    assert asked(address) == found


def test_the_site_counts_feeds_and_their_readers() -> None:
    assert naming.name("/feeds/sea.atom") == asked("/feeds/sea.atom")
    assert "feed" in naming.noters(tuple(settings.TRAFFIC_NOTED.items()))
    assert "/feeds/" in settings.TRAFFIC_READERS
