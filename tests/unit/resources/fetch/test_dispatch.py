"""Fetching as a lane of the deferral protocol: claims, promotion and sweeps end in one job."""

import json
from dataclasses import replace

import pytest
from pytest_django import Settings

from resources.fetching import publishing
from resources.fetching.queues import frontier
from resources.fetching.queues.jobs import More, Priority
from retry import connections, lanes, standings, sweeping
from retry.errors import QueueUnavailable
from retry.work import Work
from tests.conftest import RedisServers
from tests.resources.fetching.asking import claimed, idle, report
from tests.resources.fetching.clock import Clock
from tests.retry.claiming import begin, begun, make_due

URL = "https://tiles.example.com/1/2/3.png"
WORK = Work("fetch:layer:1", "fetch:layer", "fetch.fast", "fetch.refresh", "resources.fetch_tile", (URL, "layer", 1))


@pytest.fixture(autouse=True)
def _lanes(settings: Settings) -> None:
    publisher = "resources.fetching.publishing.publish"
    settings.FETCH_TASKS = {WORK.task: "tests.resources.fetching.pages.TASK"}
    settings.RETRY_LANES = {name: {"limit": 100, "workers": 10, "publisher": publisher} for name in publishing.PLACES}


def publish(work: Work, token: int, lane: str) -> None:
    lanes.publish(work.task, work.key, token, work.arguments, lane)


def test_work_of_such_a_lane_becomes_a_job_that_holds_the_call(clock: Clock) -> None:
    token = begun(WORK).token
    publish(WORK, token, WORK.lane)
    held = claimed("fast")
    assert (held.url, held.priority) == (URL, Priority.INTERACTIVE)
    [wish] = held.wishes
    assert (wish.id, wish.order) == (WORK.key, token)
    call = json.loads(wish.payload)
    assert call == {"task": WORK.task, "work": WORK.key, "token": token, "arguments": [URL, "layer", 1]}


@pytest.mark.parametrize(
    ("lane", "place"),
    [
        ("fetch.fast", ("fast", Priority.INTERACTIVE)),
        ("fetch.slow", ("slow", Priority.INTERACTIVE)),
        ("fetch.refresh", ("fast", Priority.ORDINARY)),
        ("fetch.ingest", ("fast", Priority.ORDINARY)),
        ("fetch.large", ("slow", Priority.ORDINARY)),
        ("fetch.calls", ("fast", Priority.ORDINARY)),
        ("fetch.feeds", ("fast", Priority.ORDINARY)),
        ("fetch.warm", ("slow", Priority.ORDINARY)),
    ],
)
@pytest.mark.usefixtures("clock")
def test_what_is_large_or_slow_keeps_nobody_waiting_who_is_waited_for(lane: str, place: tuple[str, Priority]) -> None:
    publish(WORK, begun(WORK).token, lane)
    held = claimed()
    assert (held.lane, held.priority) == place


def test_promoted_work_moves_forward_and_is_not_doubled(clock: Clock) -> None:
    token = begun(WORK, refresh=True).token
    publish(WORK, token, WORK.refresh_lane)
    found = begin(WORK)
    assert isinstance(found, standings.Promoted)
    publish(WORK, found.token, WORK.lane)
    held = claimed("fast")
    assert (held.priority, len(held.wishes)) == (Priority.INTERACTIVE, 1)
    report(held)
    clock.pass_by(60)
    idle()


def test_swept_work_joins_the_job_there_is(clock: Clock, servers: RedisServers) -> None:
    publish(WORK, begun(WORK).token, WORK.lane)
    make_due(servers, WORK)
    assert sweeping.sweep() == 1
    report(claimed())
    clock.pass_by(60)
    idle()


def test_swept_work_whose_job_was_lost_is_queued_again(clock: Clock, servers: RedisServers) -> None:
    begun(WORK)
    make_due(servers, WORK)
    sweeping.sweep()
    assert claimed().url == URL


def test_two_works_for_one_url_are_one_request(clock: Clock) -> None:
    other = replace(WORK, key="mirror:1", kind="mirror")
    for work in (WORK, other):
        publish(work, begun(work).token, work.lane)
    assert {wish.id for wish in claimed().wishes} == {WORK.key, other.key}
    idle()


def test_a_full_backlog_takes_no_work(clock: Clock, settings: Settings) -> None:
    settings.FETCH_DOMAIN_BACKLOG = 1
    publish(WORK, 1, WORK.lane)
    with pytest.raises(QueueUnavailable, match="Too much waits"):
        lanes.publish(WORK.task, "w", 1, ("https://tiles.example.com/another",), "fetch.fast")
    with pytest.raises(QueueUnavailable, match="No host") as refusal:
        lanes.publish(WORK.task, "w", 1, ("nonsense",), "fetch.fast")
    assert "nonsense" not in str(refusal.value)


def test_a_redis_that_is_down_takes_no_work(servers: RedisServers) -> None:
    servers.state.stop()
    with pytest.raises(QueueUnavailable, match="state"):
        publish(WORK, 1, WORK.lane)


def test_what_comes_from_a_domain_that_is_left_alone_is_not_taken(clock: Clock) -> None:
    connections.run(frontier.block("tiles.example.com", 300))
    token = begun(WORK).token
    with pytest.raises(QueueUnavailable, match="left alone") as caught:
        publish(WORK, token, WORK.lane)
    assert caught.value.retry_seconds == pytest.approx(300, abs=1)
    connections.run(frontier.unblock("tiles.example.com"))
    idle()


def test_a_domain_that_rests_for_a_moment_takes_work(clock: Clock) -> None:
    connections.run(frontier.block("tiles.example.com", 20))
    publish(WORK, begun(WORK).token, WORK.lane)
    assert 19 < idle() <= 20


def test_what_is_in_flight_already_is_joined_though_its_domain_is_left_alone(clock: Clock) -> None:
    publish(WORK, begun(WORK).token, WORK.lane)
    held = claimed()
    connections.run(frontier.block("tiles.example.com", 300))
    other = replace(WORK, key="fetch:other:1")
    publish(other, begun(other).token, other.lane)
    found = report(held)
    assert isinstance(found, More)
    assert {wish.id for wish in found.wishes} == {WORK.key, other.key}
