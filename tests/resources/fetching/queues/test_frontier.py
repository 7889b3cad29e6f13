"""The frontier: who comes next, what is full, and what time brings."""

import pytest
from pytest_django import Settings

from resources.fetching.queues import frontier
from resources.fetching.queues.frontier import TryAgain
from resources.fetching.queues.jobs import Again, Claimed, Ended, Enqueued, Full, Idle, Joined, Limits, Priority, Wish
from retry import connections
from tests.conftest import RedisServers
from tests.resources.fetching.asking import HOST, OK, UNSENT, claim, claimed, doomed, enqueue, idle, job, record, report
from tests.resources.fetching.clock import Clock

run = connections.run


def urls(number: int, clock: Clock) -> list[str]:
    """The next so many, each claimed and done as soon as it is due."""
    found = []
    for _ in range(number):
        while isinstance(nothing := claim(), Idle):
            clock.pass_by(nothing.wait_seconds)
        assert isinstance(nothing, Claimed)
        report(nothing)
        found.append(nothing.url.removeprefix("https://"))
    return found


def test_requests_to_one_host_keep_their_distance(clock: Clock) -> None:
    enqueue(job("1"), job("2"))
    claimed()
    wait = idle()
    assert 0.45 <= wait <= 0.551
    clock.pass_by(wait - 0.01)
    idle()
    clock.pass_by(0.01)
    claimed()


def test_the_distance_is_another_each_time_by_a_tenth_at_the_most(clock: Clock) -> None:
    run(frontier.set_limits(HOST, Limits(delay_seconds=1)))
    enqueue(*(job(str(number)) for number in range(20)))
    waits = []
    for _ in range(20):
        report(claimed())
        waits.append(idle())
        clock.pass_by(waits[-1])
    assert 0.9 <= min(waits[:-1]) < 0.95
    assert 1.05 < max(waits[:-1]) <= 1.101


def test_who_has_found_something_does_not_sleep_any_more(clock: Clock, servers: RedisServers) -> None:
    idle()
    assert servers.state.client.zcard("fetch:idle") == 1
    enqueue(job())
    claimed()
    assert servers.state.client.zcard("fetch:idle") == 0  # nobody has to be woken


def test_no_more_are_in_flight_than_the_cap(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(4)))
    first = claimed()
    clock.pass_by(1)
    claimed()
    clock.pass_by(9)
    idle()
    report(first)
    claimed()


def test_a_host_that_is_busy_makes_no_other_wait(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(3)), job("1", "b.example.com"))
    assert {claimed().host, claimed().host} == {HOST, "b.example.com"}


def test_first_in_is_first_out(clock: Clock) -> None:
    enqueue(*(job(str(number)) for number in range(5)))
    assert urls(5, clock) == [f"{HOST}/{number}" for number in range(5)]


def test_interactive_comes_before_flagged_and_that_before_the_rest(clock: Clock) -> None:
    enqueue(
        job("1", expected_seconds=99),
        job("1", "b.example.com", priority=Priority.FLAGGED),
        job("1", "c.example.com", priority=Priority.INTERACTIVE),
        job("2", priority=Priority.INTERACTIVE),
    )
    found = urls(4, clock)
    assert set(found[:2]) == {"c.example.com/1", f"{HOST}/2"}
    assert found[2:] == ["b.example.com/1", f"{HOST}/1"]


def test_among_equals_the_host_with_the_most_left_comes_first(clock: Clock) -> None:
    enqueue(job("1", expected_seconds=3))
    enqueue(*(job(str(number), "b.example.com", expected_seconds=2) for number in range(3)))
    enqueue(job("1", "c.example.com", expected_seconds=5))
    assert [claimed().host for _ in range(3)] == ["b.example.com", "c.example.com", HOST]


def test_a_url_that_expires_soon_comes_first_and_the_soonest_of_them(clock: Clock) -> None:
    enqueue(job("1"), job("2", expires_at=clock.unix + 600), job("3", expires_at=clock.unix + 300))
    enqueue(job("4", expires_at=clock.unix + 86_400))
    assert urls(4, clock) == [f"{HOST}/{name}" for name in "3214"]


def test_an_expired_url_fails_without_a_request(clock: Clock) -> None:
    enqueue(job("1", expires_at=clock.unix + 10))
    run(frontier.block(HOST, 3600))
    clock.pass_by(9)
    assert idle() == pytest.approx(1, abs=0.01)
    clock.pass_by(1.001)
    found = doomed()
    assert (found.why, found.job.url) == ("expired", f"https://{HOST}/1")
    assert run(frontier.finish(found.job)) == Ended()
    assert "in_flight" not in record()


def test_a_job_that_is_to_wait_is_not_claimed_before(clock: Clock) -> None:
    enqueue(job("1", not_before_seconds=30))
    assert idle() == pytest.approx(30, abs=0.01)
    clock.pass_by(30.001)
    claimed()


def test_who_waits_for_a_queued_job_moves_it_forward(clock: Clock) -> None:
    enqueue(job("1"), job("2"), job("2", priority=Priority.INTERACTIVE))
    assert urls(2, clock) == [f"{HOST}/2", f"{HOST}/1"]


def test_a_later_request_never_moves_a_job_back(clock: Clock) -> None:
    enqueue(job("1", priority=Priority.FLAGGED), job("2"), job("1"))
    assert urls(1, clock) == [f"{HOST}/1"]


def test_a_domains_backlog_is_bounded_and_its_end_is_kept_for_who_waits(clock: Clock, settings: Settings) -> None:
    settings.FETCH_DOMAIN_BACKLOG = 10
    for number in range(9):
        assert isinstance(enqueue(job(str(number))), Enqueued)
    full = enqueue(job("9"))
    assert full == Full(4.5)
    assert isinstance(enqueue(job("9", priority=Priority.INTERACTIVE)), Enqueued)
    assert isinstance(enqueue(job("10", priority=Priority.INTERACTIVE)), Full)
    assert isinstance(enqueue(job("1", "b.example.com")), Enqueued)
    assert isinstance(enqueue(job("0")), Joined)


def test_the_backlog_of_all_domains_is_bounded(clock: Clock, settings: Settings) -> None:
    settings.FETCH_BACKLOG = 10
    found = [enqueue(job("1", f"{number}.example.com")) for number in range(12)]
    assert [isinstance(one, Enqueued) for one in found] == [True] * 9 + [False] * 3


def test_fast_and_slow_are_claimed_apart(clock: Clock) -> None:
    enqueue(job("1", lane="slow"), job("1", "b.example.com"))
    assert claimed("slow").host == HOST
    idle("slow")
    assert claimed("fast").host == "b.example.com"


def test_slow_requests_leave_room_for_a_fast_one(clock: Clock) -> None:
    enqueue(*(job(str(number), lane="slow") for number in range(3)))
    claimed("slow")
    clock.pass_by(5)
    idle("slow")
    enqueue(job("fast"))
    assert claimed("fast").url.endswith("/fast")


def test_a_request_that_turns_out_slow_gives_the_fast_lanes_room_back(clock: Clock) -> None:
    enqueue(*(job(str(number), lane="slow") for number in range(2)), job("fast"))
    moved = claimed("fast")
    assert run(frontier.move(moved.key, "slow"))
    clock.pass_by(5)
    idle("slow")
    report(moved)
    claimed("slow")


def test_a_job_that_was_found_slow_stays_so(clock: Clock) -> None:
    enqueue(job("1"))
    assert run(frontier.move(job("1").key, "slow"))
    enqueue(job("1", priority=Priority.INTERACTIVE))
    idle("fast")
    assert claimed("slow").priority is Priority.INTERACTIVE


def test_a_request_that_was_not_sent_gives_its_turn_back(clock: Clock) -> None:
    enqueue(job("1"), job("2"))
    report(claimed(), UNSENT)
    claimed()


def test_a_retry_waits_and_keeps_count(clock: Clock) -> None:
    enqueue(job("1"))
    assert report(claimed(), OK, TryAgain(20)) == Again(20)
    clock.pass_by(19)
    idle()
    clock.pass_by(1.1)
    assert claimed().attempts == 1


def test_a_removed_job_is_not_claimed(clock: Clock) -> None:
    enqueue(job("1"), job("2", not_before_seconds=5), job("3", expires_at=clock.unix + 9))
    assert [run(frontier.remove(job(name).key)) for name in "1231"] == ["removed"] * 3 + ["unknown"]
    clock.pass_by(60)
    assert idle() == 60
    held_by_others = job("4", wish=Wish("a"))
    enqueue(held_by_others, job("4", wish=Wish("b")))
    assert run(frontier.remove(held_by_others.key, "a")) == "kept"
    assert claimed().wishes == (Wish("b"),)
    assert run(frontier.remove(held_by_others.key)) == "in_flight"


def test_jobs_that_are_done_leave_only_what_was_learnt(clock: Clock, servers: RedisServers) -> None:
    enqueue(job("1", expires_at=clock.unix + 600), job("2", lane="slow"), job("3", not_before_seconds=1))
    for _ in range(3):
        clock.pass_by(2)
        report(claimed())
    left = set(servers.state.client.keys("fetch:*"))
    assert left == {
        *(f"fetch:domain:{HOST}".encode(), b"fetch:domains"),
        *(b"fetch:clock", b"fetch:queued", b"fetch:token"),
    }
    assert servers.state.client.get("fetch:queued") == b"0"


def test_what_was_learnt_is_kept_for_a_month_and_what_an_admin_has_set_for_good(
    clock: Clock, servers: RedisServers
) -> None:
    name, almost_a_month = f"fetch:domain:{HOST}", 29 * 86400
    enqueue(job("1"), job("2"))
    claimed()
    assert servers.state.client.ttl(name) > almost_a_month
    run(frontier.set_limits(HOST, Limits(in_flight=2)))
    assert servers.state.client.ttl(name) == -1
    run(frontier.set_limits(HOST, Limits()))
    assert servers.state.client.ttl(name) > almost_a_month
    servers.state.client.expire(name, 1000)
    clock.pass_by(3600)
    claimed()
    assert servers.state.client.ttl(name) > almost_a_month


def test_those_that_became_due_come_in_turn_with_those_that_were(clock: Clock) -> None:
    enqueue(*(job(str(number), f"{host}.example.com") for host in "abc" for number in range(ord(host) - 96)))
    assert claimed().host == "c.example.com"  # the most is left there; the others stay due
    clock.pass_by(1)
    enqueue(job("4", "c.example.com"), job("5", "c.example.com"), job("6", "c.example.com"))
    found = run(frontier.claim_some("w", "m", 3, {"fast": 3}))
    assert [one.host for one in found if isinstance(one, Claimed)] == [f"{host}.example.com" for host in "cba"]
    assert isinstance(claim(), Idle)
