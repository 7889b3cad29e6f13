"""Topics of this site's hub: named in the output, and delivered in pages that are rendered once and not too large."""

import json
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from django.test import Client
from pytest_django import Settings

from feeds import feed_rows
from feeds.hub import topics
from feeds.parser import reader
from feeds.parser.documents import encode_fields
from feeds.push.offers import find_offer
from retry.errors import PreparationError
from tests.support import feed_rows as support_feed_rows
from tests.support.feed_rows import NOW, entry

from ..conftest import Workers
from .conftest import Subscribers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

SITE = "https://tarry.example.org"


def served(client: Client, workers: Workers, path: str) -> bytes:
    client.get(path)
    workers.work()
    answered = client.get(path)
    assert answered.status_code == 200
    return answered.content


@pytest.mark.parametrize("name", ["atom", "rss", "json"])
def test_the_output_names_this_site_as_its_hub(client: Client, workers: Workers, name: str) -> None:
    support_feed_rows.feed("sea", entry(1))
    path = f"/feeds/sea.{name}"
    content = served(client, workers, path)
    assert client.get(path)["Link"] == f'<{SITE}/hub>; rel="hub", <{SITE}{path}>; rel="self"'
    assert reader.parse_feed(content, "", f"{SITE}{path}", NOW).feed.hubs == (f"{SITE}/hub",)


def test_rss_names_the_cloud_as_other_sites_read_it_and_json_too(client: Client, workers: Workers) -> None:
    support_feed_rows.feed("sea", entry(1))
    head = reader.parse_feed(served(client, workers, "/feeds/sea.rss"), "", f"{SITE}/feeds/sea.rss", NOW).feed
    assert head.cloud is not None
    assert (head.cloud.domain, head.cloud.port, head.cloud.path) == (urlsplit(SITE).hostname, 443, "/hub/cloud")
    assert (head.cloud.protocol, head.cloud_url) == ("https-post", f"{SITE}/hub/cloud")
    offer = find_offer({**encode_fields(head), "hubs": []}, {}, f"{SITE}/feeds/sea.rss")
    assert offer is not None
    assert offer.server == f"{SITE}/hub/cloud"
    hubs = json.loads(served(client, workers, "/feeds/sea.json"))["hubs"]
    assert {"type": "rssCloud", "url": f"{SITE}/hub/cloud"} in hubs


@pytest.mark.parametrize("path", ["/feeds/sea/", "/feeds/sea.rss?q=text", "/feeds/sea.rss?limit=1"])
def test_what_is_no_topic_names_neither(client: Client, workers: Workers, path: str) -> None:
    support_feed_rows.feed("sea", entry(1))
    content = served(client, workers, path)
    assert b"/hub" not in content
    assert "Link" not in client.get(path)


@pytest.mark.parametrize(("most", "entries"), [(1_000_000, 0), (20_000, 10), (2, 1)])
def test_a_page_that_is_too_large_is_delivered_with_its_newest_entries(
    workers: Workers, subscribed: Subscribers, settings: Settings, most: int, entries: int
) -> None:
    settings.FEEDS_HUB_MAX_BYTES = most
    texts = [entry(number, content=f"<p>{'long ' * 200}</p>") for number in range(30)]
    sea = support_feed_rows.feed("sea", *texts)
    subscribed(sea, "https://reader.example.net/")
    feed_rows.touch_feeds([sea.pk], datetime.now(UTC))
    (topic,) = topics.changed_topics(datetime.now(UTC), 10)
    for _ in topics.ENTRY_CHOICES:
        chosen = topics.choose_page(topic)
        workers.work()
    assert chosen is None or chosen[0] == entries
    chosen = topics.choose_page(topic)
    assert chosen is not None
    found = reader.parse_feed(chosen[1].body, "", f"{SITE}/feeds/sea.atom", NOW)
    assert chosen[0] == entries
    assert len(found.entries) == (entries or 30)
    assert found.entries[0].title == "Entry 29"


def test_a_letter_is_written_once_for_all_subscribers_and_anew_for_a_newer_version(
    workers: Workers, subscribed: Subscribers
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, "https://reader.example.net/")
    with pytest.raises(PreparationError):
        topics.SHELF.take(row.topic_id, sea.version)
    workers.work()
    letter = topics.SHELF.take(row.topic_id, sea.version)
    assert letter is topics.SHELF.take(row.topic_id, sea.version)
    support_feed_rows.add(sea, entry(2))
    feed_rows.touch_feeds([sea.pk], datetime.now(UTC))
    sea.refresh_from_db()
    with pytest.raises(PreparationError):
        topics.SHELF.take(row.topic_id, sea.version)
    workers.work()
    newer = topics.SHELF.take(row.topic_id, sea.version)
    assert newer is not None
    assert b"Entry 2" in newer.body


def test_a_topic_whose_feed_is_hidden_has_no_letter(subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1), is_hidden=True)
    row = subscribed(sea, "https://reader.example.net/")
    assert topics.SHELF.take(row.topic_id, sea.version) is None
