"""The cases of websub.rocks for subscribers, derived anew: 100–104 and 201–204; test_views has 205 and 300–302."""

from datetime import UTC, datetime

import pytest

from feeds.models import Entry, Feed
from tests.hostile.origin import Behaviour, Origin, answer, redirect
from tests.support.feed_scans import feed, gather, in_hand, rss, subscribe, titles
from tests.support.hub_server import Hub

from .test_fetch_task import announced, in_force, read, scanned

ATOM = "http://www.w3.org/2005/Atom"
_ENTRY = "<entry><id>urn:one</id><title>one</title><updated>2026-11-01T12:00:00Z</updated></entry>"


def atom(hub: str, itself: str) -> bytes:
    links = f"<link rel='hub' href='{hub}'/><link rel='self' href='{itself}'/>"
    return f"<feed xmlns='{ATOM}'><title>A feed</title><id>urn:f</id>{links}{_ENTRY}</feed>".encode()


def page(hub: str, itself: str) -> bytes:
    """A page for people that names its hub in its head."""
    links = f"<link rel='hub' href='{hub}'><link rel='self' href='{itself}'>"
    return f"<!doctype html><title>A page</title>{links}<link rel='alternate' type='text/xml' href='/feed'>".encode()


def html(body: bytes) -> Behaviour:
    return answer("200 OK", "Content-Type: text/html", body=body)


def known(hub: Hub) -> set[str]:
    return {one.topic for one in hub.known.values()}


def test_100_102_103_104_hubs_are_found_in_link_fields_in_atom_and_in_rss_and_the_fields_go_first(
    hub: Hub, origin: Origin
) -> None:
    at = origin.url
    nowhere = "http://127.0.0.1:9/hub"
    feeds = {
        "/100": feed(rss("one"), hub.links(at("/100"))),
        "/102": feed(atom(hub.url, at("/102"))),
        "/103": feed(rss("one", more=hub.elements(at("/103")))),
        "/104": feed(atom(nowhere, at("/wrong")), hub.links(at("/104"))),
    }
    for path, behaviour in feeds.items():
        subscribe(origin.does(path, behaviour), subscriber_count=1)
    gather()
    Entry.objects.update(happened_at=datetime.now(UTC))
    scanned(lambda: known(hub) == {at(path) for path in feeds})


def test_101_the_hub_of_a_page_tells_of_the_feed_that_the_page_announces(hub: Hub, origin: Origin) -> None:
    itself = origin.url("/blog")
    origin.does("/feed", feed(rss("one")))
    subscribe(origin.does("/blog", html(page(hub.url, itself))), "a", subscriber_count=1)
    gather(lambda: Feed.objects.filter(url=origin.url("/feed")).exists() and not in_hand())
    gather(lambda: Entry.objects.exists() and not in_hand())
    Entry.objects.update(happened_at=datetime.now(UTC))
    scanned(lambda: known(hub) == {itself})
    origin.does("/feed", feed(rss("one", "two")))
    assert hub.deliver(itself, page(hub.url, itself), "text/html") == [200]
    gather()
    assert titles() == ["one", "two"]


@pytest.mark.parametrize("status", ["302 Found", "301 Moved Permanently"], ids=["201", "202"])
def test_201_202_a_topic_behind_a_redirect_is_subscribed_by_the_address_that_it_gives_itself(
    hub: Hub, status: str, origin: Origin
) -> None:
    topic = origin.does("/moved", feed(rss("one"), hub.links(origin.url("/moved"))))
    read(origin.does("/old", redirect(topic, status)))
    scanned(lambda: known(hub) == {topic})
    assert hub.deliver(topic, rss("one", "two")) == [200]
    gather()
    assert titles() == ["one", "two"]


@pytest.mark.parametrize("status", [307, 308], ids=["203", "204"])
def test_203_204_a_hub_that_redirects_is_followed_with_the_whole_request(hub: Hub, status: int, origin: Origin) -> None:
    hub.redirects = status
    topic = announced(origin, hub)
    scanned(in_force)
    assert (hub.only().topic, bool(hub.only().secret)) == (topic, True)
