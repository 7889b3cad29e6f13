"""The frontier: jobs that several want."""

from resources.fetching.queues import frontier
from resources.fetching.queues.jobs import Ended, Enqueued, Job, Joined, More, Wish
from retry import connections
from tests.resources.fetching.asking import HOST, claimed, enqueue, idle, job, report
from tests.resources.fetching.clock import Clock

run = connections.run


def test_the_same_url_is_one_job_with_both_wishes(clock: Clock) -> None:
    assert enqueue(job("1", wish=Wish("a", "{}", 1))) == Enqueued(HOST, 0)
    assert isinstance(enqueue(job("1", wish=Wish("b", "[]", 1))), Joined)
    held = claimed()
    assert {wish.id: wish.payload for wish in held.wishes} == {"a": "{}", "b": "[]"}
    report(held)
    clock.pass_by(60)
    idle()


def test_who_joins_a_request_in_flight_is_told_before_the_job_ends(clock: Clock) -> None:
    enqueue(job("1", wish=Wish("a")))
    held = claimed()
    joined = enqueue(job("1", wish=Wish("b", "late")))
    assert isinstance(joined, Joined)
    assert joined.state == "running"
    more = report(held)
    assert isinstance(more, More)
    assert Wish("b", "late") in more.wishes
    assert run(frontier.finish(held)) == more
    assert run(frontier.finish(held, more.version)) == Ended()
    assert isinstance(enqueue(job("1")), Enqueued)


def test_the_same_wish_again_changes_nothing_but_a_later_token_does(clock: Clock) -> None:
    enqueue(job("1", wish=Wish("a", "first", 7)))
    enqueue(job("1", wish=Wish("a", "again", 7)), job("1", wish=Wish("a", "older", 6)))
    held = claimed()
    assert held.wishes == (Wish("a", "first", 7),)
    enqueue(job("1", wish=Wish("a", "newer", 8)))
    more = report(held)
    assert isinstance(more, More)
    assert more.wishes == (Wish("a", "newer", 8),)


def test_a_url_signed_anew_takes_the_place_of_the_one_that_expires(clock: Clock) -> None:
    old = job("1", expires_at=clock.unix + 60)
    enqueue(old)
    new = Job(f"{old.url}?sig=2", old.key, Wish("b"), expires_at=clock.unix + 600)
    enqueue(new)
    clock.pass_by(120)
    assert claimed().url == new.url
