"""Passes of this site's hub: verified, owed, delivered, failed, dropped; begun anew where one has died."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models import Q, QuerySet
from pytest_django import Settings

from feeds import feed_rows, lifecycle
from feeds.hub import distribution, fetch_task, registration
from feeds.hub.fetch_task import RESULTS_KEY, DeliveryResult
from feeds.hub_models import HubTopic, Subscriber
from feeds.models import Category, Feed
from feeds.push.kinds import PushKind
from feeds.push.leases import MAX_DELIVERY_FAILURES
from resources import locks
from resources.fetch import dispatch
from resources.fetch.dispatch import EnqueueOutcome, OriginBusy, QueuedWork, WorkEnqueued
from resources.fetch.http.messages import Failure, FetchFailed, FetchRequest, OutcomeTiming
from retry.claim_state import LaneFull
from retry.errors import StoreUnavailable
from retry.work import Work
from tests.support import feed_rows as support_feed_rows
from tests.support.feed_rows import entry
from tests.support.feed_scans import wait_until
from tests.support.subscriber_server import CallbackSite

from ..conftest import Workers
from .conftest import Subscribers

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

CALLBACK = "https://reader.example.net/"
UPDATE = QuerySet.update


class Frontier:
    """Takes what is handed over, in this process, but for a lane that is `full`. `outcome` is its answer.

    It dies after `dies_after` works.
    """

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.outcome: EnqueueOutcome = WorkEnqueued(0)
        self.dies_after: int | None = None
        self.full = ""

    def claim_and_enqueue(self, wanted: dict[Any, QueuedWork], *, refresh: bool, write_rows: Any) -> dict[Any, Any]:
        if self.dies_after is not None and len(self.works) >= self.dies_after:
            raise StoreUnavailable("killed")
        if any(each.work.lane == self.full for each in wanted.values()):
            return dict.fromkeys(wanted, LaneFull(1))
        if isinstance(self.outcome, WorkEnqueued):
            write_rows(list(wanted), [])
            self.works += [each.work for each in wanted.values()]
        return dict.fromkeys(wanted, self.outcome)


@pytest.fixture
def frontier(monkeypatch: pytest.MonkeyPatch) -> Frontier:
    found = Frontier()
    monkeypatch.setattr(dispatch, "claim_and_enqueue", found.claim_and_enqueue)
    return found


def change(*feeds: Feed) -> None:
    """The feeds have another entry, and their pages are rendered."""
    for feed in feeds:
        support_feed_rows.add(feed, entry(100 + feed.entries.count()))
    feed_rows.touch_feeds([feed.pk for feed in feeds], datetime.now(UTC))


def distribute(seconds: float = 0) -> int:
    """One pass, once the pages that it needs are rendered."""
    workers = Workers()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("retry.lanes.publish_work", lambda *call: workers.calls.append(call))
        first = distribution.distribute_changes(datetime.now(UTC))
        workers.work()
        second = distribution.distribute_changes(datetime.now(UTC))
        workers.work()
    return first + second + distribution.distribute_changes(datetime.now(UTC) + timedelta(seconds=seconds))


def update_but_subscribers(rows: Any, **fields: Any) -> int:
    """Stands for QuerySet.update in a process that dies before subscribers are marked."""
    if rows.model is Subscriber:
        raise StoreUnavailable("killed")
    return UPDATE(rows, **fields)


def note(*results: DeliveryResult) -> None:
    with locks.open_state() as client:
        client.rpush(RESULTS_KEY, *(each.to_json() for each in results))
    distribution.note_results(datetime.now(UTC))


def is_noted() -> bool:
    """True once the result of a delivery is in its row, which a pass may have written too."""
    distribution.note_results(datetime.now(UTC))
    return Subscriber.objects.filter(Q(delivered__gt=0) | Q(failures__gt=0) | Q(state="ended")).exists()


def owed(frontier: Frontier) -> list[int]:
    """The subscribers that were handed over, and the list is emptied."""
    found = sorted(int(work.arguments[1]) for work in frontier.works)
    frontier.works.clear()
    return found


def test_subscribers_of_what_changed_are_owed_it_and_others_are_not(
    frontier: Frontier, subscribed: Subscribers
) -> None:
    sea, land = support_feed_rows.feed("sea", entry(1)), support_feed_rows.feed("land", entry(2))
    earth = support_feed_rows.category("earth", sea)
    told = [subscribed(sea, f"{CALLBACK}{number}").pk for number in range(3)]
    of_category, of_land = subscribed(earth, CALLBACK).pk, subscribed(land, CALLBACK).pk
    assert distribute() == 0
    change(sea)
    assert distribute() == 4
    assert owed(frontier) == sorted([*told, of_category])
    assert distribute() == 0  # they are in hand
    change(land)
    distribute()
    assert owed(frontier) == [of_land]


def test_pages_that_nobody_subscribes_to_are_not_rendered(frontier: Frontier, workers: Workers) -> None:
    change(support_feed_rows.feed("sea", entry(1)))
    distribution.distribute_changes(datetime.now(UTC))
    assert workers.calls == []


def test_each_is_told_of_each_change_once(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    for number in range(1, 4):
        change(sea)
        distribute()
        ((*_, version),) = [work.arguments for work in frontier.works]
        frontier.works.clear()
        note(DeliveryResult(row.pk, int(version)))
        row.refresh_from_db()
        assert (row.delivered, row.told_version, row.due_at) == (number, version, None)
        assert distribute() == 0


def test_what_changes_while_a_delivery_is_under_way_is_owed_next(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    distribute()
    first = int(frontier.works[0].arguments[3])
    owed(frontier)
    change(sea)
    distribute()
    assert frontier.works == []
    note(DeliveryResult(row.pk, first))
    distribute()
    assert int(frontier.works[0].arguments[3]) > first


def test_frequent_changes_are_told_of_once_in_a_while(
    frontier: Frontier, subscribed: Subscribers, settings: Settings
) -> None:
    settings.FEEDS_HUB_SECONDS = 60
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    distribute()
    note(DeliveryResult(row.pk, int(frontier.works[0].arguments[3])))
    owed(frontier)
    change(sea)
    assert distribute() == 0
    HubTopic.objects.update(announced_at=datetime.now(UTC) - timedelta(seconds=61))
    assert distribute() == 1


def test_a_clouds_subscriber_is_told_when_the_front_shows_the_new_page(
    frontier: Frontier, subscribed: Subscribers, settings: Settings
) -> None:
    settings.HOT_SECONDS = 5
    sea = support_feed_rows.feed("sea", entry(1))
    subscribed(sea, CALLBACK, PushKind.RSSCLOUD)
    change(sea)
    assert distribute() == 0
    assert distribute(seconds=6) == 1


def test_a_pass_that_dies_half_way_loses_no_subscriber(
    frontier: Frontier, subscribed: Subscribers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "ROWS_AT_ONCE", 3)
    sea = support_feed_rows.feed("sea", entry(1))
    everybody = sorted(subscribed(sea, f"{CALLBACK}{number}").pk for number in range(10))
    change(sea)
    frontier.dies_after = 6
    with pytest.raises(StoreUnavailable):
        distribute()
    assert len(frontier.works) == 6
    frontier.dies_after = None
    distribute()
    assert owed(frontier) == everybody


def test_a_pass_that_dies_between_its_marks_begins_anew(
    frontier: Frontier, subscribed: Subscribers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    monkeypatch.setattr(QuerySet, "update", update_but_subscribers)
    with pytest.raises(StoreUnavailable):
        distribute()
    monkeypatch.setattr(QuerySet, "update", UPDATE)
    assert distribute() == 1
    assert owed(frontier) == [row.pk]


def test_deliveries_whose_results_are_lost_are_handed_over_again(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    distribute()
    assert owed(frontier) == [row.pk]
    assert distribute(seconds=distribution.HAND_OVER_AGAIN_AFTER.total_seconds() + 1) == 1


def test_results_that_were_written_twice_change_nothing(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    distribute()
    version = int(frontier.works[0].arguments[3])
    note(DeliveryResult(row.pk, version), DeliveryResult(row.pk, version))
    note(DeliveryResult(row.pk, version), DeliveryResult(row.pk, version, "late"))
    row.refresh_from_db()
    assert (row.delivered, row.failures, row.due_at) == (1, 0, None)


def test_a_failing_subscriber_is_told_more_and_more_rarely_by_another_lane_and_then_dropped(
    frontier: Frontier, subscribed: Subscribers
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row, other = subscribed(sea, CALLBACK), subscribed(sea, f"{CALLBACK}other")
    change(sea)
    distribute()
    assert {work.lane for work in frontier.works} == {"fetch.hub"}
    version, pauses = int(frontier.works[0].arguments[3]), []
    note(DeliveryResult(other.pk, version))
    for _ in range(MAX_DELIVERY_FAILURES):
        owed(frontier)
        now = datetime.now(UTC)
        note(DeliveryResult(row.pk, version, "It answered 500."))
        row.refresh_from_db()
        if row.due_at is not None:
            pauses.append(round((row.due_at - now).total_seconds()))
            assert "500" in row.reason
            distribution.hand_over_deliveries(row.due_at, to_laggards=True)
            assert [work.lane for work in frontier.works] == ["fetch.laggards"]
    wanted = [60 * 2**number for number in range(MAX_DELIVERY_FAILURES - 1)]
    assert pauses == pytest.approx(wanted, abs=5)  # its clock was read before
    assert (row.state, row.sealed_secret) == ("ended", "")
    assert Subscriber.objects.filter(state="in force").get() == other


@pytest.mark.parametrize("failure", [Failure.OURS, Failure.POSTPONED])
def test_troubles_of_this_machine_and_rests_of_a_host_drop_no_subscriber(
    frontier: Frontier, subscribed: Subscribers, failure: Failure
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    distribute()
    version, timing = int(frontier.works[0].arguments[3]), OutcomeTiming(0, 0)
    failed = FetchFailed(failure, "no connection to the proxy", timing)
    for _ in range(MAX_DELIVERY_FAILURES + 1):
        now = datetime.now(UTC)
        note(DeliveryResult.read(row.pk, version, failed))
        row.refresh_from_db()
        assert (row.state, row.failures, "proxy" in row.reason) == ("in force", 0, True)
        assert row.due_at is not None
        assert row.due_at - now >= timedelta(seconds=59)
    note(DeliveryResult(row.pk, version))
    row.refresh_from_db()
    assert (row.delivered, row.due_at, row.reason) == (1, None, "")


def test_troubles_of_this_machine_reject_no_request(subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    asked: dict[str, Any] = {
        "state": "asked",
        "intent": "subscribe",
        "asked_at": datetime.now(UTC),
        "asked_seconds": 86_400,
    }
    row = subscribed(sea, CALLBACK, expires_at=None, **asked)
    arguments = (CALLBACK, row.pk, fetch_task.request_stamp(row))
    for came, is_there in ((Failure.OURS, True), (Failure.PERMANENT, False)):
        fetch_task.VERIFICATION.prepare(FetchFailed(came, "no", OutcomeTiming(0, 0)), *arguments)
        assert Subscriber.objects.filter(state="asked", intent="subscribe").exists() is is_there


def test_what_changes_while_a_callback_is_asked_is_owed_to_it(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    asked: dict[str, Any] = {
        "state": "asked",
        "intent": "subscribe",
        "asked_at": datetime.now(UTC),
        "asked_seconds": 86_400,
    }
    other, row = subscribed(sea, f"{CALLBACK}other"), subscribed(sea, CALLBACK, expires_at=None, **asked)
    change(sea)
    distribute()
    assert owed(frontier) == [other.pk]
    registration.confirm_request(row, datetime.now(UTC))
    distribute()
    assert owed(frontier) == [row.pk]


def test_a_change_does_not_shorten_the_pause_of_a_failing_subscriber_which_then_gets_the_newest(
    frontier: Frontier, subscribed: Subscribers
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    distribute()
    first = int(frontier.works[0].arguments[3])
    owed(frontier)
    note(DeliveryResult(row.pk, first, "It answered 500."))
    change(sea)
    assert distribute() == 0
    assert distribute(seconds=61) == 1
    assert int(frontier.works[0].arguments[3]) > first


def test_a_callback_that_is_gone_is_never_called_again(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK)
    change(sea)
    distribute()
    note(DeliveryResult(row.pk, 1, "It answered 410.", is_gone=True))
    row.refresh_from_db()
    assert row.state == "ended"
    owed(frontier)
    change(sea)
    assert distribute(seconds=3600) == 0


def test_a_resting_host_waits_and_a_full_lane_loses_nothing(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    subscribed(sea, CALLBACK)
    change(sea)
    frontier.outcome = LaneFull(3)
    assert distribute() == 0
    frontier.outcome = OriginBusy(100.0)
    distribute()
    frontier.outcome = WorkEnqueued(0)
    assert distribute(seconds=60) == 0
    assert distribute(seconds=101) == 1


def test_laggards_whose_lane_is_full_are_in_nobodys_way(
    frontier: Frontier, subscribed: Subscribers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "ROWS_AT_ONCE", 2)
    sea = support_feed_rows.feed("sea", entry(1))
    for number in range(4):
        subscribed(sea, f"{CALLBACK}{number}", failures=1, due_at=datetime.now(UTC) - timedelta(hours=1))
    others = [subscribed(sea, f"{CALLBACK}other{number}").pk for number in range(3)]
    frontier.full = "fetch.laggards"
    change(sea)
    distribute()
    assert owed(frontier) == others
    frontier.full = ""
    distribute()
    assert len(owed(frontier)) == 4


def test_a_lease_that_has_passed_ends_the_subscription(frontier: Frontier, subscribed: Subscribers) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, CALLBACK, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    change(sea)
    assert distribute() == 0
    distribution.prune_subscribers(datetime.now(UTC))
    row.refresh_from_db()
    assert (row.state, row.due_at) == ("ended", None)
    distribution.prune_subscribers(datetime.now(UTC) + timedelta(days=8))
    assert not Subscriber.objects.exists()


@pytest.mark.parametrize("is_hidden", [True, False])
def test_subscribers_of_a_feed_that_is_gone_are_told_so_once(
    frontier: Frontier, subscribed: Subscribers, is_hidden: bool
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    subscribed(sea, CALLBACK)
    pinged = subscribed(sea, f"{CALLBACK}cloud", PushKind.RSSCLOUD)
    if is_hidden:
        Feed.objects.update(is_hidden=True)
    else:
        sea.delete()
    distribution.prune_subscribers(datetime.now(UTC))
    pinged.refresh_from_db()
    assert pinged.state == "ended"
    assert distribute() == 1
    (work,) = frontier.works
    request = fetch_task.VERIFICATION.fetch(*work.arguments)
    assert "hub.mode=denied" in request.url  # type: ignore[union-attr]
    distribution.prune_subscribers(datetime.now(UTC))
    assert distribute() == 0


def test_a_feed_that_an_earlier_version_deleted_is_gone_for_its_subscribers_too(
    frontier: Frontier, subscribed: Subscribers
) -> None:
    sea, land = support_feed_rows.feed("sea"), support_feed_rows.feed("land")
    subscribed(sea, CALLBACK)
    subscribed(land, CALLBACK)
    Feed.objects.filter(pk=sea.pk)._raw_delete("default")
    distribution.prune_subscribers(datetime.now(UTC))
    assert distribute() == 1
    (work,) = frontier.works
    request = fetch_task.VERIFICATION.fetch(*work.arguments)
    assert "hub.mode=denied" in request.url  # type: ignore[union-attr]
    assert "sea.atom" in request.url  # type: ignore[union-attr]


def remove_raw(feed: Feed) -> None:
    feed.entries.all()._raw_delete("default")
    Feed.objects.filter(pk=feed.pk)._raw_delete("default")


ENDS: dict[str, Callable[[Feed, Subscriber], object]] = {
    "a hidden feed": lambda feed, row: lifecycle.hide_feeds([feed.pk], datetime.now(UTC)),
    "a removed feed": lambda feed, row: lifecycle.remove_feeds([feed.pk], datetime.now(UTC)),
    "a feed that an earlier version removed": lambda feed, row: remove_raw(feed),
    "a subscription that has ended": lambda feed, row: registration.end_subscriber(row.pk, "", datetime.now(UTC)),
    "a removed row": lambda feed, row: Subscriber.objects.filter(pk=row.pk).delete(),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_letter_that_is_kept_is_delivered_to_nobody_whose_subscription_has_ended(
    frontier: Frontier, subscribed: Subscribers, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    rows = [subscribed(sea, f"{CALLBACK}{number}") for number in range(3)]
    change(sea)
    distribute()
    first, last = frontier.works[0], frontier.works[-1]
    assert isinstance(fetch_task.DELIVERY.fetch(*first.arguments), FetchRequest)  # the letter and all rows are kept
    ENDS[end](sea, rows[-1])
    monkeypatch.setattr(fetch_task, "CHECK_SECONDS", 0)
    assert fetch_task.DELIVERY.fetch(*last.arguments) == {}
    is_told = isinstance(fetch_task.DELIVERY.fetch(*first.arguments), FetchRequest)
    assert is_told is ("feed" not in end)


def ask_for(subscribed: Subscribers, hosts: Iterable[str], at: datetime) -> list[int]:
    """Requests of new subscribers at these domains, which wait for their callbacks."""
    sea = Feed.objects.filter(slug="sea").first() or support_feed_rows.feed("sea", entry(1))
    asked: dict[str, Any] = {"state": "asked", "intent": "subscribe", "asked_at": at, "ask_at": at, "expires_at": None}
    return [subscribed(sea, f"https://{host}/{n}", host=host, **asked).pk for n, host in enumerate(hosts)]


def test_questions_take_half_of_the_slots_at_the_most_and_are_not_asked_for_ever(
    frontier: Frontier, subscribed: Subscribers, settings: Settings
) -> None:
    settings.FETCH_SLOTS = 6
    now = datetime.now(UTC)
    ask_for(subscribed, [f"reader{number}.example.net" for number in range(5)], now)
    assert distribution.hand_over_questions(now) == 3
    assert distribution.hand_over_questions(now) == 0
    for minutes in range(1, 20):
        distribution.hand_over_questions(now + timedelta(minutes=2 * minutes))
    assert not Subscriber.objects.exists()
    assert len(frontier.works) == 5 * distribution.MAX_ASKS


def test_silent_callbacks_of_one_domain_are_in_no_others_way(
    frontier: Frontier, subscribed: Subscribers, settings: Settings
) -> None:
    settings.FETCH_SLOTS = 40
    now = datetime.now(UTC)
    ask_for(subscribed, ["silent.example.net"] * 500, now - timedelta(hours=1))
    assert distribution.hand_over_questions(now) == 5
    assert distribution.hand_over_questions(now + timedelta(seconds=2)) == 0
    owed(frontier)
    late = ask_for(subscribed, ["reader.example.org"], now)
    assert distribution.hand_over_questions(now + timedelta(seconds=4)) == 1
    assert owed(frontier) == late


def test_the_domain_with_the_fewest_questions_in_hand_is_next(
    frontier: Frontier, subscribed: Subscribers, settings: Settings
) -> None:
    settings.FETCH_SLOTS = 16
    now = datetime.now(UTC)
    ask_for(subscribed, [f"silent{number}.example.net" for number in range(4)] * 5, now - timedelta(hours=1))
    assert distribution.hand_over_questions(now) == 8
    owed(frontier)
    late = ask_for(subscribed, ["reader.example.org"] * 2, now)
    assert distribution.hand_over_questions(now) == 0
    for answered in Subscriber.objects.filter(asks=1)[:2]:
        answered.delete()
    assert distribution.hand_over_questions(now) == 2
    chosen = owed(frontier)
    assert late[0] in chosen
    assert late[1] not in chosen  # by then each domain has one in hand


def test_a_host_that_rests_takes_no_place_of_others(
    frontier: Frontier, subscribed: Subscribers, settings: Settings
) -> None:
    settings.FETCH_SLOTS = 8
    now = datetime.now(UTC)
    ask_for(subscribed, [f"resting{number}.example.net" for number in range(4)], now - timedelta(hours=1))
    frontier.outcome = OriginBusy(3600)
    distribution.hand_over_questions(now)
    Subscriber.objects.update(asks=1)
    frontier.outcome = WorkEnqueued(0)
    ask_for(subscribed, ["reader.example.org"], now)
    assert distribution.hand_over_questions(now) == 1


def test_without_this_hub_nothing_is_done(frontier: Frontier, subscribed: Subscribers, settings: Settings) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    subscribed(sea, CALLBACK)
    change(sea)
    settings.FEEDS_HUB = ""
    assert distribute() == 0


@pytest.mark.usefixtures("origin")
def test_a_subscriber_is_verified_and_gets_the_signed_page_and_no_more_after_its_end(
    reached: str, site: CallbackSite
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    topic = f"{reached}/feeds/sea.atom"
    assert site.subscribe(f"{reached}/hub", topic, secret="only ours", lease_seconds="3600").status_code == 202
    distribute()
    wait_until(lambda: Subscriber.objects.filter(state="in force").exists())
    (asked,) = site.asked
    assert {name: value for name, value in asked.items() if name != "hub.challenge"} == {
        "of": "them",
        "hub.mode": "subscribe",
        "hub.topic": topic,
        "hub.lease_seconds": "3600",
    }
    change(sea)
    distribute()
    wait_until(lambda: site.delivered)
    (delivered,) = site.delivered
    assert b"Entry 101" in delivered.body
    assert delivered.is_signed_with("only ours")
    assert delivered.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    assert delivered.headers["Link"] == f'<{reached}/hub>; rel="hub", <{topic}>; rel="self"'
    wait_until(is_noted)
    assert Subscriber.objects.get().delivered == 1

    assert site.subscribe(f"{reached}/hub", topic, "unsubscribe").status_code == 202
    distribute()
    wait_until(lambda: Subscriber.objects.filter(state="ended").exists())
    change(sea)
    assert distribute() == 0
    assert len(site.delivered) == 1


@pytest.mark.usefixtures("origin")
@pytest.mark.parametrize("protocol", ["http-post", "xml-rpc"])
@pytest.mark.parametrize("domain", [True, False])
def test_a_clouds_subscriber_is_verified_and_pinged(
    reached: str, site: CallbackSite, protocol: str, domain: bool, settings: Settings
) -> None:
    settings.HOT_SECONDS = 0
    category = support_feed_rows.category("earth", support_feed_rows.feed("sea", entry(1)))
    topic = f"{reached}/feeds/category/earth.rss"
    assert 'success="true"' in site.register(f"{reached}/hub/cloud", topic, protocol=protocol, domain=domain).text
    distribute()
    wait_until(lambda: Subscriber.objects.filter(state="in force").exists())
    assert [asked["url"] for asked in site.asked] == ([topic] if domain else [])
    tested = [] if domain else [topic]
    assert [each.pinged_url for each in site.delivered] == tested
    Category.objects.filter(pk=category.pk).update(version=support_feed_rows.version_at(datetime.now(UTC)))
    distribute()
    wait_until(lambda: len(site.delivered) == len(tested) + 1)
    assert site.delivered[-1].pinged_url == topic


@pytest.mark.usefixtures("origin")
@pytest.mark.parametrize("mood", ["silent", "broken", "gone", "huge", "redirects", "otherwise"])
def test_a_callback_that_does_not_confirm_gets_nothing(reached: str, site: CallbackSite, mood: str) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    site.mood = mood
    site.subscribe(f"{reached}/hub", f"{reached}/feeds/sea.atom")
    distribute()
    wait_until(lambda: not Subscriber.objects.exists())
    change(sea)
    assert distribute() == 0
    assert (len(site.asked), site.delivered) == (1, [])


@pytest.mark.usefixtures("origin")
def test_a_request_that_is_not_confirmed_changes_no_subscription_in_force(reached: str, site: CallbackSite) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    topic = f"{reached}/feeds/sea.atom"
    site.subscribe(f"{reached}/hub", topic, secret="only ours")
    distribute()
    wait_until(lambda: Subscriber.objects.filter(state="in force").exists())
    site.wants = False
    for mode in ("subscribe", "unsubscribe"):
        site.subscribe(f"{reached}/hub", topic, mode, secret="forged")
        distribute()
        wait_until(lambda: Subscriber.objects.filter(intent="").exists())
    assert "not confirmed" in Subscriber.objects.get().reason
    site.wants = True
    change(sea)
    distribute()
    wait_until(lambda: site.delivered)
    assert site.delivered[0].is_signed_with("only ours")


@pytest.mark.usefixtures("origin")
@pytest.mark.parametrize("mood", ["silent", "broken", "redirects", "gone", "huge"])
def test_a_hostile_subscriber_is_noted_and_asked_once(
    reached: str, site: CallbackSite, subscribed: Subscribers, mood: str
) -> None:
    sea = support_feed_rows.feed("sea", entry(1))
    row = subscribed(sea, site.callback)
    site.mood = mood
    change(sea)
    distribute()
    wait_until(is_noted)
    row.refresh_from_db()
    assert row.failures == (mood in {"silent", "broken", "redirects"})
    assert row.state == ("ended" if mood == "gone" else "in force")
    assert len(site.delivered) == 1
