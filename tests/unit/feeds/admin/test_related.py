"""The admin's pages of hubs: how each stands, and how far it is trusted, in words."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from feeds import lifecycle
from feeds.hub_models import Hub, Subscription
from feeds.models import Feed
from feeds.push.leases import SubscriptionStatus
from tests.support import plain_feeds
from tests.support.admin_pages import text_of
from tests.support.feed_hubs import hub, subscribed

from .test_pages import missing, page_of

pytestmark = pytest.mark.django_db

HUBS, SUBSCRIPTIONS = "/admin/feeds/hub/", "/admin/feeds/subscription/"
NOW = datetime.now(UTC)


@pytest.fixture
def sea() -> Feed:
    feed = plain_feeds.feed("sea", pushed_at=NOW - timedelta(hours=2))
    subscribed(feed, NOW - timedelta(days=3), arrived=4, in_a_row=4, reason="In force for 10 d.")
    told = {"arrived": 40, "missed": 1, "share": 0.97, "first_push_at": NOW, "last_push_at": NOW, "trusted_since": NOW}
    Hub.objects.update(**told)
    return feed


def test_hubs_are_listed_with_their_feeds_and_how_far_they_are_trusted(admin_client: Client, sea: Feed) -> None:
    hub("https://silent.example/<script>", missed=2)
    assert not missing(
        text_of(admin_client.get(HUBS)),
        "https://hub.example.net/",
        "1 in force",
        "Trusted. 40 updates pushed, 1 found first by polling; recently 97% pushed.",
        "Not trusted: no update pushed yet. Polling found 2 updates first.",
    )
    assert b"<script>" not in admin_client.get(HUBS).content.split(b"silent.example/")[1][:20]


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        ("trust=trusted", "hub."),
        ("trust=never", "silent."),
        ("trust=lost", "lost."),
        ("kind__exact=rsscloud", "cloud."),
    ],
)
def test_hubs_are_narrowed_by_trust_and_kind(admin_client: Client, sea: Feed, narrowed: str, found: str) -> None:
    hub("https://silent.example/")
    hub("https://lost.example/", first_push_at=NOW)
    hub("https://cloud.example/", kind="rsscloud", first_push_at=NOW, trusted_since=NOW)
    said = text_of(admin_client.get(f"{HUBS}?{narrowed}"))
    shown = {name for name in ("hub.", "silent.", "lost.", "cloud.") if f"https://{name}example" in said}
    assert found in shown
    assert len(shown) == (2 if narrowed == "trust=trusted" else 1)


def test_subscriptions_are_listed_with_how_they_stand(admin_client: Client, sea: Feed) -> None:
    gone = plain_feeds.feed("gone")
    subscribed(gone, NOW, state=SubscriptionStatus.LEAVING.value, reason="The feed is paused, gone or deleted.")
    lifecycle.remove_feeds([gone.pk], NOW)
    said = text_of(admin_client.get(SUBSCRIPTIONS))
    polled = "Polled less often: 4 updates pushed, 4 in a row, 0 found first by polling."
    assert not missing(said, "In force for 10 d.", polled, "https://gone.example/feed (deleted)")
    assert Subscription.objects.get(state=SubscriptionStatus.VERIFIED.value).token not in said
    only = text_of(admin_client.get(f"{SUBSCRIPTIONS}?hub__id__exact={hub().pk}&state__exact=leaving"))
    assert "In force for 10 d." not in only
    assert "The feed is paused" in only


def test_the_page_of_a_feed_says_who_tells_of_its_changes_and_how_far_that_is_relied_on(
    admin_client: Client, settings: Settings, sea: Feed
) -> None:
    told = "WebSub, https://hub.example.net/: in force. In force for 10 d."
    page = text_of(admin_client.get(page_of(sea)))
    assert not missing(page, told, "Polled less often: 4 updates pushed", "Last push 2 h ago.")

    land = plain_feeds.feed("land")
    assert "not offered by this feed" in text_of(admin_client.get(page_of(land)))
    Feed.objects.filter(pk=land.pk).update(offer_digest="x")
    assert "(FEEDS_PUSH)" in text_of(admin_client.get(page_of(land)))
    settings.FEEDS_PUSH = True
    assert "the feed has no readers, or no recent entries" in text_of(admin_client.get(page_of(land)))
