"""The frontier: jobs that several want."""

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import FetchJob, JobEnded, JobEnqueued, JobJoined, MoreWaiters, Waiter
from retry import stores
from tests.support.frontier import HOST, claimed, enqueue, idle, job, report
from tests.support.frontier_clock import Clock

run = stores.run_steps


def test_the_same_url_is_one_job_with_both_waiters(clock: Clock) -> None:
    assert enqueue(job("1", waiter=Waiter("a", "{}", 1))) == JobEnqueued(HOST, 0)
    assert isinstance(enqueue(job("1", waiter=Waiter("b", "[]", 1))), JobJoined)
    held = claimed()
    assert {waiter.id: waiter.payload for waiter in held.waiters} == {"a": "{}", "b": "[]"}
    report(held)
    clock.pass_by(60)
    idle()


def test_who_joins_a_request_in_flight_is_told_before_the_job_ends(clock: Clock) -> None:
    enqueue(job("1", waiter=Waiter("a")))
    held = claimed()
    joined = enqueue(job("1", waiter=Waiter("b", "late")))
    assert isinstance(joined, JobJoined)
    assert joined.state == "running"
    more = report(held)
    assert isinstance(more, MoreWaiters)
    assert Waiter("b", "late") in more.waiters
    assert run(queue.finish_job(held)) == more
    assert run(queue.finish_job(held, more.version)) == JobEnded()
    assert isinstance(enqueue(job("1")), JobEnqueued)


def test_the_same_waiter_again_changes_nothing_but_a_later_token_does(clock: Clock) -> None:
    enqueue(job("1", waiter=Waiter("a", "first", 7)))
    enqueue(job("1", waiter=Waiter("a", "again", 7)), job("1", waiter=Waiter("a", "older", 6)))
    held = claimed()
    assert held.waiters == (Waiter("a", "first", 7),)
    enqueue(job("1", waiter=Waiter("a", "newer", 8)))
    more = report(held)
    assert isinstance(more, MoreWaiters)
    assert more.waiters == (Waiter("a", "newer", 8),)


def test_a_url_signed_anew_takes_the_place_of_the_one_that_expires(clock: Clock) -> None:
    old = job("1", expires_at=clock.unix + 60)
    enqueue(old)
    new = FetchJob(f"{old.url}?sig=2", old.key, Waiter("b"), expires_at=clock.unix + 600)
    enqueue(new)
    clock.pass_by(120)
    assert claimed().url == new.url
