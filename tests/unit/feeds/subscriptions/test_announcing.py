"""This site's own hub: named in what is served, and told of what changes."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
from django.test import Client
from pytest_django import Settings

from feeds.announcing import scanning
from feeds.announcing.checks import check_hub
from feeds.announcing.preparing import TASK
from feeds.keeping import versions
from feeds.models import Category, Feed
from feeds.parsing import reading
from feeds.parsing.documents import Feed as Said
from resources.fetching import publishing
from resources.fetching.outcomes import Failed, Failure, Timing
from resources.fetching.publishing import Order
from resources.fetching.queues.jobs import Enqueued
from retry import claims, connections
from retry.errors import PreparationError
from tests.feeds import rows
from tests.feeds.gathered import gathered_from
from tests.feeds.rows import NOW, entry
from tests.feeds.serving.conftest import Workers
from tests.feeds.serving.reading_back import MEDIA_TYPES
from tests.hostile.origin import Origin, answer
from tests.resources.fetching.fetchers import WAIT_SECONDS
from tests.resources.mirroring.gathering.mirrored import in_a_thread

SITE, HUB = "https://tarry.example", "https://hub.example.net/"


@pytest.fixture(autouse=True)
def _site(settings: Settings) -> None:
    settings.PUBLIC_URL, settings.FEEDS_HUB = SITE, HUB


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
@pytest.mark.parametrize("format_name", MEDIA_TYPES)
def test_what_is_served_names_the_hub_in_the_document_and_in_a_link_field(
    client: Client,
    workers: Workers,
    format_name: str,
) -> None:
    rows.category("earth", rows.feed("sea", entry(1), said=Said(hubs=("https://theirs.example/",))))
    for path in (f"/feeds/sea.{format_name}", f"/feeds/category/earth.{format_name}", f"/feeds/all.{format_name}"):
        client.get(path)
        workers.work()
        served = client.get(path)
        assert served.status_code == 200
        assert served["Link"] == f'<{HUB}>; rel="hub", <{SITE}{path}>; rel="self"'
        found = reading.parse(served.content, served["Content-Type"], f"{SITE}{path}", NOW).feed
        assert (found.hubs, found.self_link) == ((HUB,), f"{SITE}{path}")
        assert client.get(path, headers={"If-None-Match": served["ETag"]})["Link"] == served["Link"]


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_searches_later_pages_and_those_for_people_name_none(client: Client, workers: Workers) -> None:
    rows.feed("sea", entry(1))
    for path in ("/feeds/sea.atom?q=text", "/feeds/sea.atom?limit=1", "/feeds/sea/"):
        client.get(path)
        workers.work()
        served = client.get(path)
        assert served.status_code == 200
        assert "Link" not in served
        assert HUB.encode() not in served.content


def changed(*feeds: Feed) -> None:
    versions.touch([feed.pk for feed in feeds], datetime.now(UTC))


def scan() -> int:
    """How many pages the hub is being told of, once all are rendered and older ones shown nowhere."""
    workers = Workers()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("retry.lanes.publish", lambda *call: workers.calls.append(call))
        first = scanning.scan(datetime.now(UTC))
    workers.work()
    return first + scanning.scan(datetime.now(UTC) + timedelta(seconds=5))


def rested() -> None:
    """The time between two announcements of one thing has passed."""
    for name in connections.client("state").scan_iter("feeds:announced:*"):
        connections.client("state").delete(name)


async def told(origin: Origin, number: int) -> list[str]:
    """What the hub has been told, when it is that much; sorted."""
    async with asyncio.timeout(WAIT_SECONDS):
        while len(origin.asked) < number:
            await asyncio.sleep(0.01)
    return sorted(parse_qs(asked.body.decode())["hub.url"][0].removeprefix(SITE) for asked in origin.asked)


FORMATS = ("atom", "json", "rss")
ALL = [f"/feeds/all.{name}" for name in FORMATS]
EARTH = [f"/feeds/category/earth.{name}" for name in FORMATS]
SEA = [f"/feeds/sea.{name}" for name in FORMATS]


def earth() -> Feed:
    """A feed in a category, of which the hub knows all."""
    sea = rows.feed("sea", entry(1))
    rows.category("earth", sea)
    rows.feed("land", entry(2))
    for model in (Feed, Category):
        model.objects.update(version=1)
    return sea


@pytest.mark.usefixtures("gathering")
def test_the_hub_is_told_of_a_feed_that_changed_and_of_its_combinations_and_of_nothing_else(settings: Settings) -> None:
    async def test(origin: Origin) -> None:
        settings.FEEDS_HUB = origin.does("/hub", answer("202 Accepted"))
        sea = await in_a_thread(earth)()
        await in_a_thread(changed)(sea)
        assert await in_a_thread(scan)() == 9
        assert await told(origin, 9) == sorted(ALL + EARTH + SEA)
        form = parse_qs(origin.asked[0].body.decode())
        assert form["hub.mode"] == ["publish"]
        assert form["hub.topic"] == form["hub.url"]
        await in_a_thread(rested)()
        assert await in_a_thread(scan)() == 0

    gathered_from(test)


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_the_hub_is_not_told_while_it_would_be_shown_what_was_there_before(workers: Workers) -> None:
    sea, now = earth(), datetime.now(UTC)
    changed(sea)
    assert scanning.scan(now) == 0
    assert len(workers.calls) == 9
    workers.work()
    assert scanning.scan(datetime.now(UTC)) == 0  # the front may still show older pages
    assert Feed.objects.get(pk=sea.pk).announced_version == 0
    assert scanning.scan(datetime.now(UTC) + timedelta(seconds=5)) == 9
    sea.refresh_from_db()
    assert sea.announced_version == sea.version
    assert workers.calls == []


@pytest.mark.usefixtures("gathering")
def test_however_often_a_feed_changes_the_hub_is_told_once_in_a_while(settings: Settings) -> None:
    async def test(origin: Origin) -> None:
        settings.FEEDS_HUB = origin.does("/hub", answer("204 No Content"))
        sea = await in_a_thread(earth)()
        for _ in range(5):
            await in_a_thread(changed)(sea)
            await in_a_thread(scan)()
        await told(origin, 9)
        await in_a_thread(changed)(sea)
        assert await in_a_thread(scan)() == 0
        async with asyncio.timeout(WAIT_SECONDS):
            while len(origin.asked) < 18:  # the last change is not forgotten
                await in_a_thread(rested)()
                await in_a_thread(scan)()

    gathered_from(test)


@pytest.mark.usefixtures("gathering")
def test_a_hub_that_did_not_take_it_is_told_again(settings: Settings) -> None:
    def is_untold() -> bool:
        return Feed.objects.get(slug="sea").announced_version == 0

    async def test(origin: Origin) -> None:
        settings.FEEDS_HUB = origin.does("/hub", answer("400 Bad Request"))
        sea = await in_a_thread(earth)()
        await in_a_thread(changed)(sea)
        await in_a_thread(scan)()
        await told(origin, 9)
        async with asyncio.timeout(WAIT_SECONDS):
            while not await in_a_thread(is_untold)():
                await asyncio.sleep(0.01)

    gathered_from(test)


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_a_hub_that_refuses_one_format_is_not_told_of_the_others_again(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[str] = []

    def taken(orders: Sequence[Order]) -> list[Enqueued]:
        """All are taken, and done at once; but the one is refused."""
        for order in orders:
            handed.append(order.work_key.removeprefix("announcement:"))
            if order.work_key.endswith("/sea.json"):
                error = PreparationError("The hub: no.", retry_seconds=3600)
                with pytest.raises(PreparationError):
                    TASK.prepare(Failed(Failure.PERMANENT, "no", Timing(0, 1)), *order.arguments)
                connections.execute(claims.finishing_failed(order.work_key, order.token, error, luck=0))
            else:
                connections.execute(claims.abandoning(order.work_key, order.token))
        return [Enqueued("hub", 1)] * len(orders)

    monkeypatch.setattr(publishing, "publish_all", taken)
    sea = earth()
    changed(sea)
    assert scan() == 9
    assert sorted(handed) == sorted(ALL + EARTH + SEA)
    rested()
    assert scan() == 0
    connections.client("state").delete("retry:failure:announcement:/feeds/sea.json")
    rested()
    assert scan() == 1  # it is told of that again, when its refusal is forgotten
    assert handed[9:] == ["/feeds/sea.json"]


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_feeds_that_rest_or_that_the_hub_refuses_are_in_the_way_of_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[str] = []

    def refused(orders: Sequence[Order]) -> list[Enqueued]:
        """Done at once, and no page of the sea or of a combination is taken."""
        for order in orders:
            handed.append(order.work_key.removeprefix("announcement:"))
            if "land" not in order.work_key:
                with pytest.raises(PreparationError):
                    TASK.prepare(Failed(Failure.PERMANENT, "no", Timing(0, 1)), *order.arguments)
            connections.execute(claims.abandoning(order.work_key, order.token))
        return [Enqueued("hub", 1)] * len(orders)

    monkeypatch.setattr(publishing, "publish_all", refused)
    sea = earth()
    changed(sea)
    assert scan() == 9
    monkeypatch.setattr(scanning, "MOST_AT_ONCE", 1)
    changed(Feed.objects.get(slug="land"))
    scan()
    rested()
    scan()
    assert sorted(handed[9:12]) == [f"/feeds/land.{name}" for name in FORMATS]


@pytest.mark.django_db
@pytest.mark.usefixtures("redis_servers")
def test_without_a_hub_and_of_what_changed_long_ago_nobody_is_told(settings: Settings) -> None:
    earth()
    assert scan() == 0
    settings.FEEDS_HUB = ""
    Feed.objects.update(version=rows.version_at(datetime.now(UTC)))
    assert scan() == 0


@pytest.mark.parametrize(
    "hub", ["hub.example", "ftp://hub.example/", "https://", 'https://hub.example/">', "https://é/"]
)
def test_a_hub_that_is_no_address_is_said_before_anything_is_served(settings: Settings, hub: str) -> None:
    assert check_hub(None) == []
    settings.FEEDS_HUB = hub
    assert [error.id for error in check_hub(None)] == ["feeds.E001"]
