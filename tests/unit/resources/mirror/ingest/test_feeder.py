"""URLs that the feeder hands over, their order, and the state after a kill between its steps."""

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.mirror.ingest import feeder, wanted_urls
from resources.mirror.models import Resource
from retry import claims, stores
from retry.errors import PreparationError
from tests.conftest import RedisServers
from tests.support import claim_calls, mirror_rows
from tests.support.fetch_queue import claimed, jobs, killed_in
from tests.support.mirror_rows import HOUR, resource
from tests.support.mirror_runs import digest_of, feed, report

pytestmark = pytest.mark.usefixtures("mirroring")

URL = "https://example.org/a"


def urls(number: int, host: str = "example.org") -> list[str]:
    return [f"https://{host}/{place}" for place in range(number)]


def lanes(settings: Settings, limit: int) -> None:
    changed = {name: {**settings.RETRY_LANES[name], "limit": limit} for name in ("fetch.ingest", "fetch.large")}
    settings.RETRY_LANES = {**settings.RETRY_LANES, **changed}


def test_large_files_wait_in_a_lane_of_their_own(mirroring: RedisServers) -> None:
    report("https://example.org/a.jpg", "https://example.org/a.mp4")
    assert feed() == 2
    client = mirroring.state.client
    assert client.zrange(claim_calls.queued_key("fetch.ingest"), 0, -1) == [
        wanted_urls.url_work_key(digest_of("https://example.org/a.jpg")).encode()
    ]
    assert client.zcard(claim_calls.queued_key("fetch.large")) == 1


@pytest.mark.parametrize(("limit", "due"), [("lane", 2), ("domain", 0)])
def test_a_lane_or_a_domain_takes_what_it_has_room_for_and_the_rest_stays_wanted(
    mirroring: RedisServers, settings: Settings, limit: str, due: int
) -> None:
    if limit == "lane":
        lanes(settings, 3)
    else:
        settings.FETCH_DOMAIN_BACKLOG = 3
    report(*urls(5))
    assert feed() == 3
    assert feed() == 0
    assert len(jobs(mirroring)) == claimed(mirroring) == 3
    rows = Resource.objects.filter(state="wanted")
    assert (rows.count(), rows.filter(due_at__lte=datetime.now(UTC)).count()) == (5, due)


def test_nothing_is_handed_over_for_a_domain_that_is_left_alone(mirroring: RedisServers) -> None:
    report(URL, "https://example.net/b")
    stores.run_steps(queue.block_domain("example.org", 3600))
    assert feed() == 1
    assert jobs(mirroring) == ["https://example.net/b"]
    assert claimed(mirroring) == 1
    assert Resource.objects.get(host="example.org").due_at > datetime.now(UTC) + timedelta(minutes=5)  # type: ignore[operator]


def test_of_the_hosts_with_enough_work_some_are_noted(mirroring: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeder, "MAX_LATER_HOSTS", 3)
    hosts = [f"{number}.example" for number in range(9)]
    for host in hosts:
        stores.run_steps(queue.block_domain(host, 300))
    report(*(f"https://{host}/" for host in hosts))
    assert feed() == 0
    assert stores.fast_client("state").zcard(feeder.LATER_HOSTS_KEY) == 3


def test_a_url_of_a_server_that_only_asks_to_wait_is_given_up_after_months(
    mirroring: RedisServers, settings: Settings
) -> None:
    settings.MIRROR_FAILED_DAYS = 90
    old, young = report(*urls(2))
    Resource.objects.filter(pk=old).update(wanted_at=datetime.now(UTC) - timedelta(days=91))
    stores.run_steps(queue.block_domain("example.org", 3600))
    feed()
    rows = Resource.objects.in_bulk([old, young])
    assert (rows[old].state, rows[old].failure) == ("failed", "throttled")
    assert rows[old].due_at > datetime.now(UTC) + timedelta(minutes=59)  # type: ignore[operator]
    assert rows[young].state == "wanted"
    wanted_urls.refetch_urls([old], datetime.now(UTC))
    stores.fast_client("state").delete(feeder.LATER_HOSTS_KEY)
    feed()
    assert Resource.objects.get(pk=old).state == "wanted"


def test_no_host_fills_the_lane(mirroring: RedisServers, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.FETCH_DELAY_SECONDS = 60
    lanes(settings, 20)
    monkeypatch.setattr(feeder, "ROWS_PER_TRIP", 4)
    report(*urls(30))
    report(*urls(3, "example.net"))
    feed()
    hosts = [url.split("/")[2] for url in jobs(mirroring)]
    assert hosts.count("example.net") == 3
    assert hosts.count("example.org") == 4


def test_what_expires_soonest_goes_first_and_the_expired_fails(mirroring: RedisServers, settings: Settings) -> None:
    lanes(settings, 1)
    now = int(datetime.now(UTC).timestamp())
    signed = "https://example.org/{}?Signature=s&Expires={}"
    late, soon, over = (signed.format(name, now + seconds) for name, seconds in (("c", 900), ("b", 300), ("d", -1)))
    report(URL, late, soon, over)
    assert feed() == 1
    assert jobs(mirroring) == [soon]
    assert list(Resource.objects.filter(state="failed").values_list("url", "failure")) == [(over, "expired")]


def test_lists_of_tokens_take_turns(mirroring: RedisServers, settings: Settings) -> None:
    lanes(settings, 4)
    expires = int(datetime.now(UTC).timestamp()) + 300
    report(*(f"https://a.example/{place}?Signature=s&Expires={expires}" for place in range(30)), asked_by=1)
    report(*urls(30, "b.example"), asked_by=2)
    report(*urls(3, "c.example"), asked_by=3)
    feed()
    hosts = [url.split("/")[2] for url in jobs(mirroring)]
    assert {hosts.count(f"{name}.example") for name in "abc"} == {1, 2}


def test_what_two_tokens_wait_for_comes_in_the_earlier_turn() -> None:
    long = urls(30, "a.example")
    report(*urls(3, "b.example"), asked_by=2)
    report(*long, asked_by=1)
    report(long[-1], asked_by=3)
    report(long[-2], asked_by=2)  # behind its older ones
    moved = Resource.objects.filter(url__in=long).exclude(asked_by=1)
    assert moved.values_list("url", "asked_by").get() == (long[-1], 3)


def test_tokens_with_nothing_due_take_no_turns(mirroring: RedisServers, settings: Settings) -> None:
    for token in range(1, 20):
        [digest] = report(f"https://idle{token}.example/", asked_by=token)
        Resource.objects.filter(pk=digest).update(due_at=datetime.now(UTC) + HOUR)
    report(*urls(50), asked_by=20)
    lanes(settings, 40)
    assert feed() == 40


def test_no_token_with_expired_signatures_holds_up_others(
    mirroring: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder, "MAX_EXPIRED_ROWS", 10)
    monkeypatch.setattr(feeder, "LEAST_EXPIRED_ROWS", 5)
    report(*(f"https://a.example/{place}?Signature=s&Expires=1700000000" for place in range(30)), asked_by=1)
    report("https://b.example/?Signature=s&Expires=1700000000", asked_by=2)
    feed()
    assert Resource.objects.filter(state="failed", asked_by=1).count() == 5
    assert Resource.objects.filter(state="failed", asked_by=2).count() == 1


def test_a_later_signature_takes_the_place_of_one_that_has_run_out() -> None:
    now = int(datetime.now(UTC).timestamp())
    over, fresh = (f"https://example.org/d?Key-Pair-Id=k&Signature=s&Expires={now + seconds}" for seconds in (-1, 900))
    report(over)
    feed()
    later = wanted_urls.WantedUrl(digest_of(fresh), fresh, "example.org", None, datetime.now(UTC))
    assert wanted_urls.want_refused_urls([later], later.wanted_at) == {later.url_digest}
    [row] = Resource.objects.all()
    assert (row.state, row.url) == ("wanted", fresh)


def test_killed_over_it_nothing_is_handed_over_twice(mirroring: RedisServers, monkeypatch: pytest.MonkeyPatch) -> None:
    report(*urls(3))
    killed_in(monkeypatch, feeder, "check_again_at", feed)
    stores.fast_client("state").delete(feeder.FEED_LOCK)  # it ends by itself
    assert feed() == 0
    assert jobs(mirroring) == urls(3)
    assert claimed(mirroring) == 3


def test_what_redis_has_lost_is_handed_over_again(mirroring: RedisServers) -> None:
    report(*urls(3))
    feed()
    mirroring.state.client.flushall()
    assert feeder.feed_fetchers(datetime.now(UTC) + timedelta(seconds=feeder.IN_HAND_SECONDS + 1)) == 3
    assert jobs(mirroring) == urls(3)


def test_two_feeders_do_not_meet_and_a_dead_one_keeps_nobody_away(mirroring: RedisServers) -> None:
    report(URL)
    mirroring.state.client.set(feeder.FEED_LOCK, "another", ex=feeder.FEED_LOCK_SECONDS)
    assert feed() == 0
    assert 0 < mirroring.state.client.ttl(feeder.FEED_LOCK) <= feeder.FEED_LOCK_SECONDS
    mirroring.state.client.delete(feeder.FEED_LOCK)
    assert feed() == 1
    assert not mirroring.state.client.exists(feeder.FEED_LOCK)


@pytest.mark.parametrize(("status", "attempts"), [(502, 1), (503, 0)])
def test_a_failure_that_only_those_who_wait_were_told_of_counts(status: int, attempts: int) -> None:
    report(URL)
    fail_its_work(status)
    assert feed() == 0
    row = Resource.objects.get()
    assert (row.state, row.attempts) == ("wanted", attempts)
    assert row.due_at is not None
    assert row.due_at > datetime.now(UTC) + timedelta(seconds=30)


def test_work_that_ends_its_fetcher_again_and_again_is_given_up(settings: Settings) -> None:
    settings.MIRROR_ATTEMPTS = 1
    report(URL)
    fail_its_work(502)
    feed()
    row = Resource.objects.get()
    assert (row.state, row.failure, row.detail) == ("failed", "transient", "It ended its fetcher twice.")


def fail_its_work(status: int) -> None:
    """Fails its work, as the sweeper does, or a fetcher that postpones it for long."""
    error = PreparationError("It ended its fetcher twice.", status=status, retry_seconds=60)
    work = wanted_urls.mirror_work(URL, digest_of(URL))
    token = claim_calls.begun(work).token
    stores.execute_call(claims.finish_failed_call(work.key, token, error, luck=0.5))


def test_what_was_wanted_by_a_clock_that_was_ahead_is_handed_over_now(mirroring: RedisServers) -> None:
    ahead, soon = datetime.now(UTC) + HOUR, datetime.now(UTC) + timedelta(seconds=20)
    resource("ahead", wanted_at=ahead, due_at=ahead)
    resource("later", due_at=ahead)
    resource("far", due_at=ahead + timedelta(days=2))
    resource("soon", wanted_at=soon, due_at=soon)
    mirroring.state.client.zadd(feeder.LATER_HOSTS_KEY, {"images.example.org": ahead.timestamp()})
    assert feeder.feed_fetchers(datetime.now(UTC)) == 2
    assert set(jobs(mirroring)) == {mirror_rows.url("ahead"), mirror_rows.url("far")}
