"""The admin's pages of this site's own hub."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from feeds.hub_models import HubTopic, Subscriber
from tests.support import feed_rows
from tests.support.admin_pages import text_of

from .test_pages import missing

pytestmark = pytest.mark.django_db

TOPICS, SUBSCRIBERS = "/admin/feeds/hubtopic/", "/admin/feeds/subscriber/"


@pytest.fixture(autouse=True)
def _subscribed() -> None:
    topic = HubTopic.objects.create(feed=feed_rows.feed("sea"), path="/feeds/sea.atom", digest="1", entries=10)
    for number, state in enumerate(("in force", "in force", "ended")):
        Subscriber.objects.create(
            topic=topic,
            kind="websub",
            host=f"reader{number}.example",
            callback=f"https://reader{number}.example/<script>",
            digest=str(number),
            state=state,
            delivered=7,
            delivered_at=datetime.now(UTC) - timedelta(hours=2),
            reason="Its callback is gone (410)." if state == "ended" else "",
        )


def test_topics_are_listed_with_their_subscribers(admin_client: Client) -> None:
    assert not missing(text_of(admin_client.get(TOPICS)), "/feeds/sea.atom", "2 in force", "10 entries in a delivery")


def test_subscribers_are_listed_with_their_state_and_found_by_domain_and_topic(admin_client: Client) -> None:
    page = text_of(admin_client.get(SUBSCRIBERS))
    assert not missing(page, "reader0.example", "in force", "7", "Its callback is gone (410).", "WebSub")
    assert (
        "<script>" not in admin_client.get(SUBSCRIBERS).content.decode().split("<main", 1)[-1].split("reader0", 1)[-1]
    )
    found = text_of(admin_client.get(SUBSCRIBERS, {"q": "reader1.example"}))
    assert "reader1.example" in found
    assert "reader0.example" not in found
    topic = HubTopic.objects.get()
    assert "reader2.example" in text_of(admin_client.get(SUBSCRIBERS, {"topic__id__exact": topic.pk}))


def test_a_subscribers_page_has_its_whole_callback_and_how_it_stands(admin_client: Client) -> None:
    row = Subscriber.objects.filter(state="in force")[0]
    row.callback = f"https://reader.example/{'long/' * 60}"
    row.expires_at = datetime.now(UTC) + timedelta(days=2, hours=1)
    row.failures = 3
    row.save()
    there = f"{SUBSCRIBERS}{row.pk}/change/"
    listed = admin_client.get(SUBSCRIBERS)
    assert there in listed.content.decode()
    assert not missing(text_of(listed), "https://reader.example/long/", "…", "Its lease ends in 2 d")
    assert row.callback not in text_of(listed)
    page = text_of(admin_client.get(there))
    assert not missing(page, row.callback, "Failures in a row", "/feeds/sea.atom", "in force", "the last 2 h ago")


def test_a_topics_page_tells_its_subscribers(admin_client: Client) -> None:
    topic = HubTopic.objects.get()
    assert not missing(
        text_of(admin_client.get(f"{TOPICS}{topic.pk}/change/")), "/feeds/sea.atom", "2 in force", "never"
    )


def test_a_subscription_can_be_ended_by_an_admin(admin_client: Client) -> None:
    row = Subscriber.objects.first()
    assert row is not None
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    assert admin_client.post(SUBSCRIBERS, chosen).status_code == 302
    assert not Subscriber.objects.filter(pk=row.pk).exists()
    assert Subscriber.objects.count() == 2
