"""A site that is the hub of its own feeds, and a subscriber that is called over real HTTP."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from feeds.hub import fetch_task, topics
from feeds.hub_models import HubTopic, Subscriber
from feeds.models import Category, Feed
from feeds.pages.query import PageQuery
from feeds.push.kinds import PushKind
from feeds.push.leases import SubscriberStatus
from tests.conftest import RedisServers
from tests.support import subscriber_server
from tests.support.subscriber_server import CallbackSite


@pytest.fixture(autouse=True)
def _is_hub(settings: Settings) -> None:
    settings.PUBLIC_URL, settings.FEEDS_HUB = "https://tarry.example.org", "self"
    settings.FEEDS_HUB_SECONDS = 0
    topics.SHELF._letters.clear()
    fetch_task.OWED_ROWS.forget()


@pytest.fixture
def reached(feed_redis: RedisServers, live_server: LiveServer, settings: Settings) -> str:
    """The address of the site, which others can reach, and whose fetchers may call this machine."""
    settings.PUBLIC_URL = live_server.url
    settings.RETRY_DONE_SECONDS = 0.01
    settings.FEEDS_HUB_ANSWER_SECONDS = 2.0
    return live_server.url


@pytest.fixture
def site() -> Iterator[CallbackSite]:
    with subscriber_server.running() as site:
        yield site


class Subscribers:
    """Makes subscribers in force, without asking any."""

    def __call__(
        self, subject: Feed | Category, callback: str, kind: PushKind = PushKind.WEBSUB, **fields: object
    ) -> Subscriber:
        of = PageQuery.page_of_feed if isinstance(subject, Feed) else PageQuery.page_of_category
        path, name = of(subject.slug).as_format("atom").path, "feed" if isinstance(subject, Feed) else "category"
        known = {"version": subject.version, "path": path, name: subject}
        topic, _ = HubTopic.objects.get_or_create(digest=f"{name}{subject.pk}", defaults=known)
        now = datetime.now(UTC)
        own: dict[str, object] = {
            "host": "subscriber.example.net",
            "expires_at": now + timedelta(days=1),
            "verified_at": now,
        }
        versions = {"told_version": subject.version, "wanted_version": subject.version}
        number = Subscriber.objects.count()
        state = SubscriberStatus.VERIFIED.value
        known = {"digest": f"{number} {callback}", "state": state, **own, **versions, **fields}
        return Subscriber.objects.create(topic=topic, kind=kind.value, callback=callback, **known)


@pytest.fixture
def subscribed(db: None) -> Subscribers:
    return Subscribers()
