"""The frontier: jobs that are held, and workers that are lost."""

from dataclasses import replace

from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import DomainLimits, JobEnded, JobHeld, JobJoined, JobLost, MoreWaiters, Waiter
from resources.fetch.frontier.queue import HoldJob
from retry import stores
from tests.support.frontier import (
    HOST,
    OK,
    THROTTLED,
    claim,
    claimed,
    dead_job,
    enqueue,
    idle,
    job,
    next_claimed,
    record,
    report,
)
from tests.support.frontier_clock import Clock

run = stores.run_steps
HOUR = 3600


def test_a_held_job_keeps_no_room(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(3)))
    run(queue.set_limits(HOST, DomainLimits(in_flight=1)))
    held = claimed()
    clock.pass_by(1)
    idle()
    assert report(held, OK, HoldJob()) == JobHeld()
    assert claimed().url.endswith("/1")
    assert isinstance(enqueue(job("0", waiter=Waiter("late"))), JobJoined)
    assert isinstance(run(queue.finish_job(held)), MoreWaiters)


def test_a_lost_workers_job_goes_back_to_its_place(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"), job("2"))
    lost = claimed()
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    again = claimed()
    assert (again.url, again.lapses) == (lost.url, 1)
    assert again.token > lost.token
    assert report(lost) == JobLost()
    assert run(queue.renew_job_leases([lost, again])) == {lost.key}
    assert report(again) == JobEnded()


def test_a_lease_that_is_renewed_does_not_lapse(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"))
    held = claimed()
    for _ in range(5):
        clock.pass_by(settings.FETCH_LEASE_SECONDS * 0.9)
        assert run(queue.renew_job_leases([held])) == set()
        idle()
    assert report(held) == JobEnded()


def test_the_job_of_a_worker_that_dies_after_its_request_is_done_again(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"))
    report(claimed(), OK, HoldJob())
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    assert report(claimed()) == JobEnded()


def test_what_never_came_to_its_worker_goes_back_without_a_lapse(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"), job("2"), job("1", "b.example.com"), job("1", "c.example.com"))
    held = claimed()
    for _ in range(2):
        claim(worker="w")
    claim(worker="another")
    clock.pass_by(1)
    assert run(queue.requeue_unheld_jobs("w", [held.key])) == 2
    clock.pass_by(settings.FETCH_LEASE_SECONDS / 2)
    assert run(queue.renew_job_leases([held])) == set()
    again = [claimed() for _ in range(3)]  # both of them, and the next of the first host
    assert all(one.lapses == 0 for one in again)
    assert report(held) == JobEnded()


def test_work_that_kills_its_worker_fails(clock: Clock, settings: Settings) -> None:
    enqueue(job("1"))
    for _ in range(2):
        claimed()
        clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    found = dead_job()
    assert found.why == "lapsed"
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    assert dead_job().why == "lapsed"  # the fetcher that was to tell died too
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
