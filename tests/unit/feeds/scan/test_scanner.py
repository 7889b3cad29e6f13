"""Feeds that a scan hands over, their order, and the state after a kill between its steps."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from feeds import feed_rows
from feeds.models import Feed, Scan
from feeds.pages.work import feed_work_key
from feeds.scan import due, handover, scanner
from feeds.schedule.order import PlannedFetch
from resources import locks
from resources.fetch import dispatch
from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits, JobPriority
from retry import claims, stores, worker
from retry.errors import PreparationError
from tests.conftest import RedisServers
from tests.support import frontier
from tests.support.bounded_disk import bound_disk
from tests.support.feed_scans import scan, subscribe
from tests.support.fetch_queue import claimed, jobs, killed_in
from tests.support.plain_feeds import NOW
from tests.support.plain_feeds import feed as plain_feed

pytestmark = pytest.mark.usefixtures("feed_redis")

URL = "https://example.org/a"


def priority_of(servers: RedisServers) -> int:
    (name,) = servers.state.client.scan_iter("fetch:{0}:job:*")
    held: Any = servers.state.client.hget(name, "priority")
    return int(held)


def row(one: Feed) -> Feed:
    return Feed.objects.get(pk=one.pk)


def claimed_token(one: Feed) -> int:
    held: Any = stores.fast_client("state").hget(f"retry:{{0}}:claim:{feed_work_key(one.pk)}", "token")
    return int(held)


def test_what_is_due_is_handed_over_once(feed_redis: RedisServers) -> None:
    now = datetime.now(UTC)
    subscribe(URL)
    subscribe(f"{URL}2", next_check_at=now + timedelta(hours=1))
    subscribe(f"{URL}3", paused=True)

    assert [scan(), scan()] == [1, 0]
    assert jobs(feed_redis) == [URL]


def test_what_waits_in_line_takes_no_place_from_what_is_due(feed_redis: RedisServers) -> None:
    """It is looked at again all the same: its claim may be lost."""
    now = datetime.now(UTC)
    for place in range(3):
        subscribe(f"{URL}{place}", next_check_at=now - timedelta(hours=1), handed_over_at=now - timedelta(minutes=2))
    new = subscribe(f"{URL}new", next_check_at=now)

    found = due.due_feeds(now, 1)
    assert [one.pk for one in found if not one.was_in_hand] == [new.pk]
    assert len(found) == 4


def test_what_is_flagged_while_a_host_is_found_to_be_left_alone_stays_flagged() -> None:
    one, now = subscribe(URL), datetime.now(UTC)
    for flagged_at, after in ((now - timedelta(seconds=1), None), (now + timedelta(seconds=1),) * 2):
        Feed.objects.filter(pk=one.pk).update(flagged_at=flagged_at)
        handover.postpone_feed(one.pk, timedelta(minutes=10), now)
        assert row(one).flagged_at == after


def test_what_is_flagged_comes_first_and_with_a_priority_of_its_own(feed_redis: RedisServers) -> None:
    one = subscribe(URL, next_check_at=datetime.now(UTC) + timedelta(hours=1))
    subscribe(f"{URL}2")

    feed_rows.flag_feeds([one.pk], datetime.now(UTC))

    assert [each.pk for each in due.due_feeds(datetime.now(UTC), 1)] == [one.pk]
    Feed.objects.exclude(pk=one.pk).delete()
    assert scan() == 1
    assert priority_of(feed_redis) == JobPriority.FLAGGED


def test_what_waits_in_line_and_is_flagged_then_comes_before_the_rest(feed_redis: RedisServers) -> None:
    one = subscribe(URL)
    scan()
    assert priority_of(feed_redis) == JobPriority.ORDINARY

    feed_rows.flag_feeds([one.pk], datetime.now(UTC))
    assert scan() == 0
    assert priority_of(feed_redis) == JobPriority.FLAGGED
    assert len(jobs(feed_redis)) == 1


def test_a_flag_asks_for_one_scan_until_that_begins(feed_redis: RedisServers) -> None:
    one = subscribe(URL)
    for _ in range(3):
        feed_rows.flag_feeds([one.pk], datetime.now(UTC))
    assert feed_redis.state.client.llen("work") == 1

    scan()
    feed_rows.flag_feeds([one.pk], datetime.now(UTC))
    assert feed_redis.state.client.llen("work") == 2


def test_feeds_of_one_host_are_put_in_line_shortest_first(feed_redis: RedisServers, settings: Settings) -> None:
    for seconds in (9.0, 2.0, 5.0):
        subscribe(f"{URL}{seconds:g}", expected_seconds=seconds)
    subscribe("https://example.net/long", expected_seconds=60.0)

    line = scanner.order_feeds(due.due_feeds(datetime.now(UTC), 10))
    assert [one.url for one, _ in line if one.host == "example.org"] == [f"{URL}2", f"{URL}5", f"{URL}9"]


def test_a_feed_without_timings_is_expected_to_take_as_long_as_its_host_or_else_as_most_do() -> None:
    assert due.expected_fetches(due.all_feeds()) == []
    for place, (host, seconds) in enumerate([("a", 4.0), ("a", 6.0), ("b", 1.0), ("a", None), ("c", None)]):
        subscribe(f"https://{host}.example/{place}", expected_seconds=seconds)

    unknown = [one for one in due.due_feeds(datetime.now(UTC), 10) if one.seconds is None]
    found = {fetch.host: fetch.seconds for fetch in due.expected_fetches(unknown)}
    assert found == {"a.example": 5.0, "c.example": 4.0}
    own = {one.url: fetch.seconds for one, fetch in scanner.order_feeds(due.all_feeds())}
    assert (own["https://a.example/0"], own["https://b.example/2"]) == (4.0, 1.0)


def test_no_more_is_taken_than_the_fetchers_have_room_for(feed_redis: RedisServers, settings: Settings) -> None:
    def limit_lane(limit: int) -> None:
        lanes = settings.RETRY_LANES
        settings.RETRY_LANES = {**lanes, "fetch.feeds": {**lanes["fetch.feeds"], "limit": limit}}

    limit_lane(2)
    for place in range(3):
        subscribe(f"{URL}{place}")

    assert [scan(), scan()] == [2, 0]
    limit_lane(1)
    assert scan() == 0, "a lane that is fuller than it may be ends no scan"


def test_a_scan_that_died_with_the_lock_holds_up_nobody_for_long(feed_redis: RedisServers) -> None:
    subscribe(URL)
    with locks.hold_lock(scanner.SCAN_LOCK, scanner.SCAN_LOCK_SECONDS):
        assert scan() == 0
        assert 0 < feed_redis.state.client.ttl(scanner.SCAN_LOCK) <= scanner.SCAN_LOCK_SECONDS
    assert scan() == 1


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (handover, "_mark_rows"),
        (dispatch, "enqueue_jobs"),
        (claims, "begin_call"),
        (handover, "_note_outcome"),
        (scanner, "record_scan"),
        (scanner, "note_handed_over"),
    ],
    ids=["before rows are marked", "before jobs", "before claims", "after jobs", "before all", "at the end"],
)
def test_a_scan_killed_between_its_steps_is_made_up_for(
    feed_redis: RedisServers, monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    one = subscribe(URL)

    killed_in(monkeypatch, module, name, scan)
    scan()
    if claimed(feed_redis) and not jobs(feed_redis):
        sweep(feed_redis)

    assert jobs(feed_redis) == [URL]
    assert claimed(feed_redis) == 1
    assert row(one).next_check_at <= datetime.now(UTC)


def sweep(servers: RedisServers) -> None:
    """The sweeper's time has come."""
    for name in servers.state.client.scan_iter("retry:{0}:claim:*"):
        servers.state.client.zadd("retry:{0}:claims", {name.decode().removeprefix("retry:{0}:claim:"): 0})
    worker.sweep_claims()


def test_a_feed_that_did_not_come_back_is_handed_over_again_in_the_same_scan(feed_redis: RedisServers) -> None:
    one = subscribe(URL)
    scan()
    feed_redis.state.client.flushall()
    assert scan() == 0  # it may be in line for a while

    Feed.objects.filter(pk=one.pk).update(handed_over_at=datetime.now(UTC) - timedelta(minutes=2))
    assert scan() == 1
    assert jobs(feed_redis) == [URL]
    assert row(one).scan == Scan.objects.get()


def test_a_flagged_feed_is_fetched_though_the_clock_was_set_back_since_it_was_stored(feed_redis: RedisServers) -> None:
    one = subscribe(URL, checked_at=datetime.now(UTC) + timedelta(hours=1))
    feed_rows.flag_feeds([one.pk], datetime.now(UTC))
    assert scan() == 1
    assert jobs(feed_redis) == [URL]


def test_what_comes_back_while_a_scan_goes_on_is_not_fetched_again(
    feed_redis: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = subscribe(URL, handed_over_at=datetime.now(UTC) - timedelta(minutes=2))
    ordered = scanner.order_feeds

    def comes_back(*given: Any) -> Any:
        Feed.objects.filter(pk=one.pk).update(checked_at=datetime.now(UTC), handed_over_at=None)
        return ordered(*given)

    monkeypatch.setattr(scanner, "order_feeds", comes_back)
    assert scan() == 0
    assert (jobs(feed_redis), claimed(feed_redis), row(one).handed_over_at) == ([], 0, None)


@pytest.mark.parametrize(
    ("seconds", "reason", "minutes"),
    [
        (600, r"Its host is on hold for (10 min|9 min 5\d s): fetched after that\.", 9),
        (
            7200 + 30,
            r"Its host is on hold for 2 h: fetched after that\. The hold may end sooner: checked again every 1 h\.",
            59,
        ),
    ],
)
def test_a_host_that_is_left_alone_keeps_its_feeds_waiting_in_words(
    feed_redis: RedisServers, seconds: float, reason: str, minutes: int
) -> None:
    one = subscribe(URL)
    stores.run_steps(queue.block_domain("example.org", seconds))

    assert scan() == 0
    assert re.fullmatch(reason, row(one).reason)
    assert timedelta(minutes=minutes) < row(one).next_check_at - datetime.now(UTC) < timedelta(minutes=minutes + 5)
    assert row(one).handed_over_at is None
    assert (jobs(feed_redis), claimed(feed_redis), Scan.objects.count()) == ([], 0, 0)


@pytest.mark.parametrize(
    ("status", "detail", "state", "failures"),
    [
        (502, "Its preparation answered so.", "failing", 1),
        (503, "Its origin is left alone, and nobody answered so.", "active", 0),
    ],
)
def test_a_failure_that_only_its_claim_has_seen_is_decided_upon(
    status: int, detail: str, state: str, failures: int
) -> None:
    one = subscribe(URL)
    scan()
    error = PreparationError(detail, status=status, retry_seconds=600)
    stores.execute_call(claims.finish_failed_call(feed_work_key(one.pk), claimed_token(one), error, luck=0.5))
    Feed.objects.filter(pk=one.pk).update(handed_over_at=datetime.now(UTC) - timedelta(minutes=2))

    assert scan() == 0
    assert (row(one).state, row(one).failures) == (state, failures)
    assert "answered so" in row(one).reason
    assert row(one).next_check_at > datetime.now(UTC) + timedelta(minutes=9)


def test_the_bound_of_a_scan_knows_the_limits_of_hosts() -> None:
    for place in range(3):
        subscribe(f"{URL}{place}", expected_seconds=1.0)
    stores.run_steps(queue.set_limits("example.org", DomainLimits(delay_seconds=10, in_flight=1)))
    scan()
    assert Scan.objects.get().expected_seconds == 21.0


def test_a_scan_ends_when_the_last_of_its_feeds_has_come_back() -> None:
    began = datetime.now(UTC)
    many = [subscribe(f"https://{place}.example/") for place in range(3)]
    scan()
    noted = Scan.objects.get()
    assert (noted.feeds, noted.hosts, noted.ended_at) == (3, 3, None)

    came_back(many[:2], began + timedelta(seconds=4), 2.0)
    scan()
    assert Scan.objects.get().ended_at is None

    came_back(many[2:], began + timedelta(seconds=9), 8.0)
    scan()
    noted = Scan.objects.get()
    assert noted.ended_at == began + timedelta(seconds=9)
    assert noted.makespan_seconds == pytest.approx(9, abs=1)
    assert noted.bound_seconds == 8.0


def test_the_bound_of_a_scan_knows_how_many_fetchers_there_are(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    settings.FETCH_SLOTS = 2
    fetches = [PlannedFetch(str(place), f"{place}.example", 4.0) for place in range(8)]
    for number, seconds in ((0, 16.0), (1, 16.0), (2, 8.0)):
        stores.fast_client("state").delete("fetch:{0}:fetchers")
        for fetcher in range(number):
            stores.run_steps(queue.sign_in_fetcher(f"{fetcher}"))
        assert scanner.bound_fetch_seconds(fetches) == seconds


def test_the_bound_of_a_scan_counts_what_hosts_have_refused_and_not_what_was_learnt_slowly() -> None:
    fetches = [PlannedFetch(str(place), "a.example", 2.0) for place in range(8)]
    frontier.learn("a.example", delay=9000, cap=1)
    assert scanner.bound_fetch_seconds(fetches) == 4.0
    frontier.learn("a.example", cap_refused=2)
    assert scanner.bound_fetch_seconds(fetches) == 16.0


def test_no_scan_has_a_bound_above_its_time() -> None:
    one, began = subscribe(URL), datetime.now(UTC)
    scan()
    came_back([one], began + timedelta(seconds=4), 2.0)
    scanner.end_finished_scans(began + timedelta(minutes=1), lambda fetches: 99.0)
    noted = Scan.objects.get()
    assert noted.bound_seconds == noted.makespan_seconds


def test_a_scan_whose_feeds_never_come_back_has_no_time(feed_redis: RedisServers) -> None:
    began = datetime.now(UTC)
    many = [subscribe(f"https://{place}.example/") for place in range(2)]
    scan()
    came_back(many[:1], began + timedelta(seconds=4), 2.0)
    scanner.end_finished_scans(began + timedelta(days=2), lambda fetches: 1.0)
    noted = Scan.objects.get()
    assert noted.ended_at is not None
    assert (noted.makespan_seconds, noted.bound_seconds) == (None, None)


def test_a_scan_that_was_killed_counts_what_it_had_handed_over() -> None:
    began = datetime.now(UTC)
    fetches = [PlannedFetch(str(place), f"{place}.example", 5.0) for place in range(3)]
    killed = scanner.record_scan(fetches, 15.0, began)
    one = subscribe(URL, scan=killed, expected_seconds=5.0)
    scanner.record_scan(fetches, 15.0, began)  # which had handed over nothing
    came_back([one], began + timedelta(seconds=4), 2.0)
    scanner.end_finished_scans(began + timedelta(minutes=1), lambda given: sum(each.seconds for each in given))
    noted = Scan.objects.get(pk=killed.pk)
    assert (noted.feeds, noted.hosts, noted.expected_seconds, noted.bound_seconds) == (1, 1, 5.0, 2.0)
    assert Scan.objects.exclude(pk=killed.pk).get().feeds == 0


def test_a_pass_ends_a_few_scans_and_those_that_go_on_hold_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "MAX_SCANS_ENDED_PER_PASS", 2)
    now = datetime.now(UTC)
    opened = [scanner.record_scan([], 0, now - timedelta(minutes=10 - place)) for place in range(4)]
    subscribe(URL, scan=opened[0], handed_over_at=now)
    for left in (2, 1, 1):
        scanner.end_finished_scans(now, lambda fetches: 1.0)
        assert Scan.objects.filter(ended_at=None).count() == left
    assert Scan.objects.get(ended_at=None) == opened[0]


def came_back(many: list[Feed], at: datetime, seconds: float) -> None:
    later = at + timedelta(days=1)
    Feed.objects.filter(pk__in=[one.pk for one in many]).update(
        handed_over_at=None, checked_at=at, last_seconds=seconds, next_check_at=later
    )


NOTHING = dict.fromkeys(("feeds", "hosts", "expected_seconds"), 0)
AHEAD = NOW + timedelta(hours=1)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def taken_hosts(now: datetime = NOW) -> list[str]:
    return [one.host for one in due.due_feeds(now, 10)]


@pytest.mark.django_db
def test_what_was_flagged_by_a_clock_that_was_ahead_is_taken_now() -> None:
    one = plain_feed("a", flagged_at=AHEAD, next_check_at=AHEAD + seconds(600))
    assert taken_hosts() == []
    assert scanner.repair_future_times(NOW) == 1
    assert taken_hosts() == ["a.example"]
    one.refresh_from_db()
    assert one.next_check_at == NOW + seconds(600)


@pytest.mark.django_db
def test_the_order_of_what_has_happened_stays() -> None:
    Scan.objects.create(started_at=AHEAD, **NOTHING)
    one = plain_feed("a", fetch_began_at=AHEAD, checked_at=AHEAD + seconds(1), handed_over_at=AHEAD + seconds(5))
    Feed.objects.update(flagged_at=AHEAD + seconds(6), next_check_at=AHEAD + seconds(61))
    assert scanner.repair_future_times(NOW) == 1
    one.refresh_from_db()
    found = (one.fetch_began_at, one.checked_at, one.handed_over_at, one.flagged_at, one.next_check_at)
    assert found == (NOW - seconds(6), NOW - seconds(5), NOW - seconds(1), NOW, NOW + seconds(55))
    assert taken_hosts() == ["a.example"]
    assert Scan.objects.get().started_at == NOW
    assert scanner.repair_future_times(NOW) == 0


@pytest.mark.django_db
def test_what_lies_in_the_past_stays_and_what_is_to_come_soon_too() -> None:
    Scan.objects.create(started_at=AHEAD, **NOTHING)
    one = plain_feed(
        "a", fetch_began_at=NOW - seconds(9), checked_at=NOW, flagged_at=NOW + seconds(20), next_check_at=AHEAD
    )
    before = Feed.objects.values().get()
    plain_feed("b", checked_at=AHEAD)
    assert scanner.repair_future_times(NOW) == 1
    assert Feed.objects.values().get(pk=one.pk) == before


@pytest.mark.django_db
def test_while_the_clock_is_right_no_row_is_looked_at(django_assert_num_queries: object) -> None:
    plain_feed("a", flagged_at=NOW, checked_at=NOW)
    with django_assert_num_queries(2):  # type: ignore[operator]  # a fixture that makes contexts
        assert scanner.repair_future_times(NOW) == 0


@pytest.mark.django_db
def test_what_was_interrupted_goes_on_with_the_next_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "FEEDS_PER_REPAIR", 1)
    Scan.objects.create(started_at=AHEAD, **NOTHING)
    for name in "abc":
        plain_feed(name, checked_at=AHEAD)
    move_back, moved = scanner._repair_part, 0

    def failing(*given: Any) -> None:
        nonlocal moved
        moved += 1
        if moved == 2:
            raise OperationalError("database is locked")
        move_back(*given)

    monkeypatch.setattr(scanner, "_repair_part", failing)
    with pytest.raises(OperationalError):
        scanner.repair_future_times(NOW)
    assert scanner.repair_future_times(NOW) == 2
    assert not Feed.objects.filter(checked_at__gt=NOW).exists()


def test_no_feed_is_fetched_while_entries_have_no_room(settings: Settings, tmp_path: Path) -> None:
    bound_disk(settings, tmp_path, 0, is_full=True)
    subscribe(URL)
    assert scan() == 0
    bound_disk(settings, tmp_path, 0)
    assert scan() == 1
