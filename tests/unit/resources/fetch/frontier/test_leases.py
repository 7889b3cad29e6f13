"""The frontier: jobs that are held, and workers that are lost."""

from dataclasses import replace

from pytest_django import Settings

from resources.fetching.queues import frontier
from resources.fetching.queues.frontier import Hold
from resources.fetching.queues.jobs import Ended, Held, Joined, Limits, More, Stale, Wish
from retry import connections
from tests.resources.fetching.asking import (
    HOST,
    OK,
    THROTTLED,
    claim,
    claimed,
    doomed,
    enqueue,
    idle,
    job,
    next_claimed,
    record,
    report,
)
from tests.resources.fetching.clock import Clock

run = connections.run
HOUR = 3600


def test_a_held_job_keeps_no_room(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(3)))
    run(frontier.set_limits(HOST, Limits(in_flight=1)))
    held = claimed()
    clock.pass_by(1)
    idle()
    assert report(held, OK, Hold()) == Held()
    assert claimed().url.endswith("/1")
    assert isinstance(enqueue(job("0", wish=Wish("late"))), Joined)
    assert isinstance(run(frontier.finish(held)), More)


def test_a_lost_workers_job_goes_back_to_its_place(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"), job("2"))
    lost = claimed()
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    again = claimed()
    assert (again.url, again.lapses) == (lost.url, 1)
    assert again.token > lost.token
    assert report(lost) == Stale()
    assert run(frontier.renew([lost, again])) == {lost.key}
    assert report(again) == Ended()


def test_a_lease_that_is_renewed_does_not_lapse(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"))
    held = claimed()
    for _ in range(5):
        clock.pass_by(settings.FETCH_LEASE_SECONDS * 0.9)
        assert run(frontier.renew([held])) == set()
        idle()
    assert report(held) == Ended()


def test_the_job_of_a_worker_that_dies_after_its_request_is_done_again(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"))
    report(claimed(), OK, Hold())
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    assert report(claimed()) == Ended()


def test_what_never_came_to_its_worker_goes_back_without_a_lapse(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"), job("2"), job("1", "b.example.com"), job("1", "c.example.com"))
    held = claimed()
    for _ in range(2):
        claim(worker="w")
    claim(worker="another")
    clock.pass_by(1)
    assert run(frontier.put_back("w", [held.key])) == 2
    clock.pass_by(settings.FETCH_LEASE_SECONDS / 2)
    assert run(frontier.renew([held])) == set()
    again = [claimed() for _ in range(3)]  # both of them, and the next of the first host
    assert all(one.lapses == 0 for one in again)
    assert report(held) == Ended()


def test_work_that_kills_its_worker_fails(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"))
    for _ in range(2):
        claimed()
        clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    found = doomed()
    assert found.why == "lapsed"
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    assert doomed().why == "lapsed"  # whoever was to tell died too
    assert int(record()["in_flight"]) == 0


def test_a_clock_that_is_set_back_keeps_no_domain_and_no_lost_job_waiting(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"), job("2"), job("1", "b.example.com"))
    lost, other = claimed(), claimed()
    clock.pass_by(-HOUR)
    report(other)
    assert 0 < idle() <= settings.FETCH_LEASE_SECONDS
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    assert {next_claimed(clock).url for _ in range(2)} == {lost.url, job("2").url}


def test_a_host_that_asked_to_be_left_alone_is_left_alone_for_as_long_when_the_clock_is_set_back(clock: Clock) -> None:
    enqueue(job("1"), job("2"))
    report(claimed(), replace(THROTTLED, retry_after_seconds=60))
    clock.pass_by(-HOUR)
    idle()
    clock.pass_by(50)
    idle()
    clock.pass_by(11)
    claimed()
