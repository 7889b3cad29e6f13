"""The admin's pages of hubs: how each stands, and how far it is trusted, in words."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from feeds.keeping import pausing
from feeds.models import Feed
from feeds.pushing.renewing import State
from feeds.subscriptions import Hub, Subscription
from tests.feeds.admin.test_pages import page_of, text
from tests.feeds.at_hubs import hub, subscribed
from tests.feeds.keeping import rows

pytestmark = pytest.mark.django_db

HUBS, SUBSCRIPTIONS = "/admin/feeds/hub/", "/admin/feeds/subscription/"
NOW = datetime.now(UTC)


@pytest.fixture
def sea() -> Feed:
    feed = rows.feed("sea", pushed_at=NOW - timedelta(hours=2))
    subscribed(feed, NOW - timedelta(days=3), arrived=4, in_a_row=4, reason="In force for 10 d.")
    told = {"arrived": 40, "missed": 1, "share": 0.97, "first_push_at": NOW, "last_push_at": NOW, "trusted_since": NOW}
    Hub.objects.update(**told)
    return feed


def test_hubs_are_listed_with_their_feeds_and_how_far_they_are_trusted(admin_client: Client, sea: Feed) -> None:
    hub("https://silent.example/<script>", missed=2)
    said = text(admin_client.get(HUBS))
    assert "https://hub.example.net/" in said
    assert "1 in force" in said
    assert "Trusted. It told of 40 pieces of news, polling found 1 first; of late it told of 97%." in said
    assert "Not trusted: nothing came from it so far that was news. Polling found 2 pieces of news first." in said
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
    said = text(admin_client.get(f"{HUBS}?{narrowed}"))
    shown = {name for name in ("hub.", "silent.", "lost.", "cloud.") if f"https://{name}example" in said}
    assert found in shown
    assert len(shown) == (2 if narrowed == "trust=trusted" else 1)


def test_subscriptions_are_listed_with_how_they_stand(admin_client: Client, sea: Feed) -> None:
    gone = rows.feed("gone")
    subscribed(gone, NOW, state=State.LEAVING.value, reason="Its feed is paused, gone or deleted.")
    pausing.remove([gone.pk], NOW)
    said = text(admin_client.get(SUBSCRIPTIONS))
    assert "In force for 10 d." in said
    assert "Polled seldom: 4 pieces of news told of, 4 in a row, 0 found first by polling." in said
    assert "https://gone.example/feed" in said
    assert Subscription.objects.get(state=State.VERIFIED.value).token not in said
    only = text(admin_client.get(f"{SUBSCRIPTIONS}?hub__id__exact={hub().pk}&state__exact=leaving"))
    assert "In force for 10 d." not in only
    assert "Its feed is paused" in only


def test_the_page_of_a_feed_says_who_tells_of_its_changes_and_how_far_that_is_relied_on(
    admin_client: Client, settings: Settings, sea: Feed
) -> None:
    said = text(admin_client.get(page_of(sea)))
    assert "By WebSub, https://hub.example.net/: in force. In force for 10 d." in said
    assert "Polled seldom: 4 pieces of news told of" in said
    assert "Last push 2 h ago." in said

    land = rows.feed("land")
    assert "No: it announces neither hub nor cloud." in text(admin_client.get(page_of(land)))
    Feed.objects.filter(pk=land.pk).update(offer_digest="x")
    assert "(FEEDS_PUSH)" in text(admin_client.get(page_of(land)))
    settings.FEEDS_PUSH = True
    assert "nobody reads it, or it has been quiet" in text(admin_client.get(page_of(land)))
