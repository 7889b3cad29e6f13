"""This site's own hub: named in the output, and told of changes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from feeds import feed_rows
from feeds.checks import check_hub
from feeds.models import Category, Feed
from feeds.parser import reader
from feeds.parser.documents import FeedHead as Said
from feeds.subscriptions import own_hub
from feeds.subscriptions.own_hub import TASK
from resources.fetch import dispatch
from resources.fetch.frontier.jobs import FetchJob, JobEnqueued
from resources.fetch.http.messages import Failure, FetchFailed, OutcomeTiming
from retry import claims, stores
from retry.errors import PreparationError
from tests.hostile.origin import Origin, answer
from tests.support import feed_rows as support_feed_rows
from tests.support import flask_hub
from tests.support.feed_pages import MEDIA_TYPES
from tests.support.feed_rows import NOW, entry
from tests.support.feed_scans import wait_until
from tests.support.fetch_queue import calls_of
from tests.support.server import Handler, serving

from ..conftest import Workers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

SITE, HUB = "https://tarry.example", "https://hub.example.net/"


@pytest.fixture(autouse=True)
def _site(settings: Settings) -> None:
    settings.PUBLIC_URL, settings.FEEDS_HUB = SITE, HUB


@pytest.mark.parametrize("format_name", MEDIA_TYPES)
def test_what_is_served_names_the_hub_in_the_document_and_in_a_link_field(
    client: Client, workers: Workers, format_name: str
) -> None:
    support_feed_rows.category(
        "earth", support_feed_rows.feed("sea", entry(1), said=Said(hubs=("https://theirs.example/",)))
    )
    for path in (f"/feeds/sea.{format_name}", f"/feeds/category/earth.{format_name}", f"/feeds/all.{format_name}"):
        client.get(path)
        workers.work()
        served = client.get(path)
        assert served.status_code == 200
        assert served["Link"] == f'<{HUB}>; rel="hub", <{SITE}{path}>; rel="self"'
        found = reader.parse_feed(served.content, served["Content-Type"], f"{SITE}{path}", NOW).feed
        assert (found.hubs, found.self_link) == ((HUB,), f"{SITE}{path}")
        assert client.get(path, headers={"If-None-Match": served["ETag"]})["Link"] == served["Link"]


def test_searches_later_pages_and_those_for_people_name_none(client: Client, workers: Workers) -> None:
    support_feed_rows.feed("sea", entry(1))
    for path in ("/feeds/sea.atom?q=text", "/feeds/sea.atom?limit=1", "/feeds/sea/"):
        client.get(path)
        workers.work()
        served = client.get(path)
        assert served.status_code == 200
        assert "Link" not in served
        assert HUB.encode() not in served.content


def changed(*feeds: Feed) -> None:
    feed_rows.touch_feeds([feed.pk for feed in feeds], datetime.now(UTC))


def scan() -> int:
    """The number of pages that the hub is being told of, once all are rendered and older ones shown nowhere."""
    workers = Workers()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("retry.lanes.publish_work", lambda *call: workers.calls.append(call))
        first = own_hub.announce_changes(datetime.now(UTC))
    workers.work()
    return first + own_hub.announce_changes(datetime.now(UTC) + timedelta(seconds=5))


def rested() -> None:
    """The time between two announcements of one thing has passed."""
    for name in stores.fast_client("state").scan_iter("feeds:announced:*"):
        stores.fast_client("state").delete(name)


def told(origin: Origin, number: int) -> list[str]:
    """The addresses that the hub has been told, once they are as many; sorted."""
    wait_until(lambda: len(origin.asked) >= number)
    return sorted(parse_qs(asked.body.decode())["hub.url"][0].removeprefix(SITE) for asked in origin.asked)


FORMATS = ("atom", "json", "rss")
ALL = [f"/feeds/all.{name}" for name in FORMATS]
EARTH = [f"/feeds/category/earth.{name}" for name in FORMATS]
SEA = [f"/feeds/sea.{name}" for name in FORMATS]


def earth() -> Feed:
    """A feed in a category, with all its pages known to the hub."""
    sea = support_feed_rows.feed("sea", entry(1))
    support_feed_rows.category("earth", sea)
    support_feed_rows.feed("land", entry(2))
    for model in (Feed, Category):
        model.objects.update(version=1)
    return sea


@pytest.mark.usefixtures("feed_redis")
def test_the_hub_is_told_of_a_feed_that_changed_and_of_its_combinations_and_of_nothing_else(
    settings: Settings, origin: Origin
) -> None:
    settings.FEEDS_HUB = origin.does("/hub", answer("202 Accepted"))
    sea = earth()
    changed(sea)
    assert scan() == 9
    assert told(origin, 9) == sorted(ALL + EARTH + SEA)
    form = parse_qs(origin.asked[0].body.decode())
    assert form["hub.mode"] == ["publish"]
    assert form["hub.topic"] == form["hub.url"]
    rested()
    assert scan() == 0


def test_the_hub_is_not_told_while_it_would_be_shown_what_was_there_before(workers: Workers) -> None:
    sea, now = earth(), datetime.now(UTC)
    changed(sea)
    assert own_hub.announce_changes(now) == 0
    assert len(workers.calls) == 9
    workers.work()
    assert own_hub.announce_changes(datetime.now(UTC)) == 0  # the front may still show older pages
    assert Feed.objects.get(pk=sea.pk).announced_version == 0
    assert own_hub.announce_changes(datetime.now(UTC) + timedelta(seconds=5)) == 9
    sea.refresh_from_db()
    assert sea.announced_version == sea.version
    assert workers.calls == []


@pytest.mark.usefixtures("feed_redis")
def test_however_often_a_feed_changes_the_hub_is_told_once_in_a_while(settings: Settings, origin: Origin) -> None:
    settings.FEEDS_HUB = origin.does("/hub", answer("204 No Content"))
    sea = earth()
    for _ in range(5):
        changed(sea)
        scan()
    told(origin, 9)
    changed(sea)
    assert scan() == 0

    def is_told_again() -> bool:
        rested()
        scan()
        return len(origin.asked) >= 18

    wait_until(is_told_again)  # the last change is not forgotten


class PickyHub:
    """Takes announcements at once, but for `refused` ends of paths. `told` has all of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *refused: str) -> None:
        self.told: list[str] = []
        self._refused = refused
        monkeypatch.setattr(dispatch, "enqueue_jobs", self._take)

    def _take(self, jobs: Sequence[FetchJob | None]) -> list[JobEnqueued]:
        for call in calls_of(jobs):
            self.told.append(call.work_key.removeprefix("fetch:announcement:"))
            if call.work_key.endswith(self._refused):
                error = PreparationError("The hub: no.", retry_seconds=3600)
                with pytest.raises(PreparationError):
                    TASK.prepare(FetchFailed(Failure.PERMANENT, "no", OutcomeTiming(0, 1)), *call.arguments)
                stores.execute_call(claims.finish_failed_call(call.work_key, call.token, error, luck=0))
            else:
                stores.execute_call(claims.abandon_call(call.work_key, call.token))
        return [JobEnqueued("hub", 1)] * len(jobs)


def forget_refusals() -> None:
    for name in stores.fast_client("state").scan_iter("retry:{0}:failure:fetch:announcement:*"):
        stores.fast_client("state").delete(name)


def test_a_hub_that_refuses_one_format_is_not_told_of_the_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = PickyHub(monkeypatch, "/sea.json")
    changed(earth())
    assert scan() == 9
    assert sorted(hub.told) == sorted(ALL + EARTH + SEA)
    rested()
    assert scan() == 0
    forget_refusals()
    rested()
    assert scan() == 1  # it is told of that again, when its refusal is forgotten
    assert hub.told[9:] == ["/feeds/sea.json"]


def test_feeds_that_rest_or_that_the_hub_refuses_are_in_the_way_of_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = PickyHub(monkeypatch, *ALL, *EARTH, *SEA)
    changed(earth())
    assert scan() == 9
    forget_refusals()
    monkeypatch.setattr(own_hub, "MAX_ANNOUNCED", 1)
    changed(Feed.objects.get(slug="land"))
    scan()
    rested()
    scan()
    assert sorted(hub.told[9:12]) == [f"/feeds/land.{name}" for name in FORMATS]


def test_without_a_hub_and_of_what_changed_long_ago_nobody_is_told(settings: Settings) -> None:
    earth()
    assert scan() == 0
    settings.FEEDS_HUB = ""
    Feed.objects.update(version=support_feed_rows.version_at(datetime.now(UTC)))
    assert scan() == 0


@pytest.mark.parametrize(
    "hub", ["hub.example", "ftp://hub.example/", "https://", 'https://hub.example/">', "https://é/"]
)
def test_a_hub_that_is_no_address_is_said_before_anything_is_served(settings: Settings, hub: str) -> None:
    assert check_hub(None) == []
    settings.FEEDS_HUB = hub
    assert [error.id for error in check_hub(None)] == ["feeds.E001"]


@contextmanager
def subscriber() -> Iterator[tuple[str, list[bytes]]]:
    """Confirms every verification; its URL, and the deliveries to it."""
    delivered: list[bytes] = []

    class Subscriber(Handler):
        def do_GET(self) -> None:  # noqa: N802  as the library calls it
            self.answer(200, parse_qs(urlsplit(self.path).query)["hub.challenge"][0].encode())

        def do_POST(self) -> None:  # noqa: N802
            delivered.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(204, b"")

    with serving(Subscriber) as url:
        yield f"{url}/", delivered


def change(workers: Workers) -> None:
    """Something new comes, and its pages are rendered."""
    sea = Feed.objects.get(slug="sea")
    support_feed_rows.add(sea, entry(2))
    feed_rows.touch_feeds([sea.pk], datetime.now(UTC))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("retry.lanes.publish_work", lambda *call: workers.calls.append(call))
        own_hub.announce_changes(datetime.now(UTC))
    workers.work()


@pytest.mark.usefixtures("feed_redis")
def test_what_changes_is_delivered_by_the_hub_to_its_subscribers(
    live_server: LiveServer, settings: Settings, tmp_path: Path, origin: Origin
) -> None:
    topic = f"{live_server.url}/feeds/sea.atom"
    support_feed_rows.feed("sea", entry(1))
    with flask_hub.running(tmp_path) as hub, subscriber() as (callback, delivered):
        settings.PUBLIC_URL, settings.FEEDS_HUB = live_server.url, hub.url
        hub.ask("subscribe", topic, callback=callback)
        wait_until(lambda: hub.callbacks(topic))
        change(Workers())
        own_hub.announce_changes(datetime.now(UTC) + timedelta(seconds=5))
        wait_until(lambda: delivered)
        assert b"Entry 2" in delivered[0]
