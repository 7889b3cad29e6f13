"""Jobs of several waiters, held or lost by fetchers, and works that start and end with them."""

from dataclasses import replace
from typing import cast

import pytest
from pytest_django import Settings

from resources.fetch.frontier import jobs, queue
from resources.fetch.frontier.queue import AfterReport, EndJob, HoldJob, PutJobBack, RetryJob
from retry import claim_state, claims, stores
from retry.errors import PreparationError
from retry.scripts import join_calls
from retry.work import Work
from tests.conftest import RedisServers
from tests.support import frontier
from tests.support.claim_calls import begun, finish, look, queued, start, started
from tests.support.frontier_clock import Clock

pytestmark = pytest.mark.usefixtures("clock")


run = stores.run_steps


def test_who_joins_a_request_in_flight_is_told_before_the_job_ends(clock: Clock) -> None:
    frontier.enqueue(frontier.job("1", waiter=jobs.Waiter("a")))
    held = frontier.claimed()
    joined = frontier.enqueue(frontier.job("1", waiter=jobs.Waiter("b", "late")))
    assert isinstance(joined, jobs.JobJoined)
    assert joined.state == "running"
    more = frontier.report(held)
    assert isinstance(more, jobs.MoreWaiters)
    assert jobs.Waiter("b", "late") in more.waiters
    assert run(queue.finish_job(held)) == more
    assert run(queue.finish_job(held, more.version)) == jobs.JobEnded()
    assert isinstance(frontier.enqueue(frontier.job("1")), jobs.JobEnqueued)


def test_the_same_waiter_again_changes_nothing_but_a_later_token_does(clock: Clock) -> None:
    frontier.enqueue(frontier.job("1", waiter=jobs.Waiter("a", "first", 7)))
    frontier.enqueue(
        frontier.job("1", waiter=jobs.Waiter("a", "again", 7)), frontier.job("1", waiter=jobs.Waiter("a", "older", 6))
    )
    held = frontier.claimed()
    assert held.waiters == (jobs.Waiter("a", "first", 7),)
    frontier.enqueue(frontier.job("1", waiter=jobs.Waiter("a", "newer", 8)))
    more = frontier.report(held)
    assert isinstance(more, jobs.MoreWaiters)
    assert more.waiters == (jobs.Waiter("a", "newer", 8),)


def test_a_url_signed_anew_takes_the_place_of_the_one_that_expires(clock: Clock) -> None:
    old = frontier.job("1", expires_at=clock.unix + 60)
    frontier.enqueue(old)
    new = jobs.FetchJob(f"{old.url}?sig=2", old.key, jobs.Waiter("b"), expires_at=clock.unix + 600)
    frontier.enqueue(new)
    clock.pass_by(120)
    assert frontier.claimed().url == new.url


HOUR = 3600


@pytest.mark.parametrize("asked", [False, True])
def test_a_lost_workers_job_goes_back_to_its_place(clock: Clock, settings: Settings, asked: bool) -> None:
    frontier.enqueue(frontier.job("1"), frontier.job("2"))
    lost = frontier.claimed()
    if asked:
        frontier.report(lost, frontier.OK, HoldJob())
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    again = frontier.claimed()
    assert (again.url, again.lapses) == (lost.url, 1)
    assert again.token > lost.token
    assert frontier.report(lost) == jobs.JobLost()
    assert run(queue.renew_job_leases([lost, again])) == {lost.key}
    assert frontier.report(again) == jobs.JobEnded()


def test_what_never_came_to_its_worker_goes_back_without_a_lapse(clock: Clock, settings: Settings) -> None:
    frontier.enqueue(
        frontier.job("1"), frontier.job("2"), frontier.job("1", "b.example.com"), frontier.job("1", "c.example.com")
    )
    held = frontier.claimed()
    for _ in range(2):
        frontier.claim(worker="w")
    frontier.claim(worker="another")
    run(queue.sign_out_fetcher("another"))
    clock.pass_by(1)
    assert run(queue.requeue_unheld_jobs("w", [held.key])) == 2
    clock.pass_by(settings.FETCH_LEASE_SECONDS / 2)
    assert run(queue.renew_job_leases([held])) == set()
    again = [frontier.claimed() for _ in range(3)]  # both of them, and the next of the first host
    assert all(one.lapses == 0 for one in again)
    assert frontier.report(held) == jobs.JobEnded()


def test_a_clock_that_is_set_back_keeps_no_domain_and_no_lost_job_waiting(clock: Clock, settings: Settings) -> None:
    frontier.enqueue(frontier.job("1"), frontier.job("2"), frontier.job("1", "b.example.com"))
    lost, other = frontier.claimed(), frontier.claimed()
    clock.pass_by(-HOUR)
    frontier.report(other)
    assert 0 < frontier.idle() <= settings.FETCH_LEASE_SECONDS
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    assert {frontier.next_claimed(clock).url for _ in range(2)} == {lost.url, frontier.job("2").url}


def test_a_host_that_asked_to_be_left_alone_is_left_alone_for_as_long_when_the_clock_is_set_back(clock: Clock) -> None:
    frontier.enqueue(frontier.job("1"), frontier.job("2"))
    frontier.report(frontier.claimed(), replace(frontier.THROTTLED, retry_after_seconds=60))
    clock.pass_by(-HOUR)
    frontier.idle()
    clock.pass_by(50)
    frontier.idle()
    clock.pass_by(11)
    frontier.claimed()


WORK = Work("fetch:page", "tests.page", "fetch.fast", "fetch.refresh", "page", ("https://a.example.com/1",))
LATE = replace(WORK, key="fetch:late")


def claim_and_start_dead() -> jobs.DeadJob:
    [found, *_] = run(queue.claim_jobs("w", "m", 1, {"fast": 1, "slow": 1}, claims.start_terms()))
    assert isinstance(found, jobs.DeadJob), found
    return found


def claim_and_start() -> jobs.ClaimedJob:
    """The next job, with its waiters."""
    [found, *_] = run(queue.claim_jobs("w", "m", 1, {"fast": 1, "slow": 1}, claims.start_terms()))
    assert isinstance(found, jobs.ClaimedJob), found
    return found


def wanted(work: Work, *, obeys_robots: bool = False, expires_at: float | None = None) -> int:
    """Claims the work, which wants the job; its token."""
    token = begun(work).token
    want(work, token, obeys_robots=obeys_robots, expires_at=expires_at)
    return token


def want(work: Work, token: int, *, obeys_robots: bool = False, expires_at: float | None = None) -> None:
    frontier.enqueue(
        frontier.job("1", waiter=jobs.Waiter(work.key, "{}", token), obeys_robots=obeys_robots, expires_at=expires_at)
    )


def test_works_start_with_the_job_that_they_want(servers: RedisServers) -> None:
    tokens = {work: begun(work).token for work in (WORK, LATE)}
    for work, token in tokens.items():
        want(work, token)
    found = claim_and_start()
    assert found.starts == {WORK.key: claims.STARTED, LATE.key: claims.STARTED}
    assert queued(servers, "fetch.fast") == set()
    started = {waiter.id: waiter.token for waiter in found.waiters}
    for work, token in tokens.items():
        assert started[work.key] > token
        assert not finish(work, token)
        assert not start(work, started[work.key])
        assert finish(work, started[work.key])


def test_work_that_goes_on_elsewhere_or_has_ended_does_not_start_with_its_job() -> None:
    token, ended = begun(WORK).token, begun(LATE).token
    want(WORK, token)
    want(LATE, ended)
    assert start(WORK, token)
    assert finish(LATE, ended)
    assert claim_and_start().starts == {WORK.key: 0, LATE.key: 0}
    assert isinstance(look(WORK), claim_state.ClaimTaken)


def test_nothing_starts_with_a_turn_that_is_for_robots_txt() -> None:
    token = wanted(WORK, obeys_robots=True)
    found = claim_and_start()
    assert found.needs_robots
    assert found.starts == {}
    assert start(WORK, token)


def test_works_start_with_a_dead_job_and_again_when_its_fetcher_dies(clock: Clock, settings: Settings) -> None:
    wanted(WORK, expires_at=clock.unix + 1)
    for seconds in (2, settings.FETCH_LEASE_SECONDS + 1):
        clock.pass_by(seconds)
        assert claim_and_start_dead().job.starts == {WORK.key: claims.STARTED}


def test_a_job_that_has_lost_its_fetcher_twice_fails_and_its_works_are_told_at_once(
    clock: Clock, settings: Settings
) -> None:
    wanted(WORK)
    frontier.claimed()  # by a fetcher that dies before it starts anything
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
    claim_and_start()
    for _ in range(2):  # the fetcher that was to tell dies too
        clock.pass_by(settings.FETCH_LEASE_SECONDS + 0.1)
        found = claim_and_start_dead()
        assert (found.why, found.job.starts) == ("lapsed", {WORK.key: claims.STARTED})
    assert int(frontier.record()["in_flight"]) == 0


def test_a_work_that_starts_after_its_job_waits_with_it_again_and_starts_once_more(clock: Clock) -> None:
    token = wanted(WORK)
    held = frontier.claimed()
    outcome, started_token = run(queue.start_work(held, WORK.key))
    assert (outcome, started_token > token) == (claims.STARTED, True)
    frontier.report(held, frontier.UNSENT, PutJobBack())
    again = claim_and_start()
    assert again.starts == {WORK.key: claims.STARTED}
    assert again.waiters[0].token > started_token


def test_a_waiter_that_was_withdrawn_starts_no_more() -> None:
    wanted(WORK)
    held = frontier.claimed()
    run(queue.withdraw_waiter(held.key, WORK.key))
    assert run(queue.start_work(held, WORK.key)) == (0, 0)


@pytest.mark.parametrize("came_to_its_worker", [True, False])
def test_work_that_had_started_elsewhere_goes_on_there_when_its_job_goes_back(
    clock: Clock, came_to_its_worker: bool
) -> None:
    token = wanted(WORK)
    assert start(WORK, token, "elsewhere")
    held = claim_and_start()
    if came_to_its_worker:
        frontier.report(held, frontier.UNSENT, PutJobBack())
    else:
        clock.pass_by(1)
        assert run(queue.requeue_unheld_jobs("w", [])) == 1
    assert started(WORK, token, "elsewhere").outcome == claims.STARTED


@pytest.mark.parametrize(
    ("came", "then"),
    [(frontier.UNSENT, PutJobBack()), (frontier.FAILED, RetryJob(2)), (frontier.THROTTLED, None), (None, None)],
    ids=["put back", "tried again", "throttled", "lost on its way to its worker"],
)
def test_what_started_with_a_job_waits_again_in_the_step_in_which_that_does(
    came: jobs.RequestReport | None, then: AfterReport | None, clock: Clock, servers: RedisServers
) -> None:
    wanted(WORK)
    held = claim_and_start()
    clock.pass_by(1)
    if came:
        assert isinstance(frontier.report(held, came, then), jobs.JobRequeued)
    else:
        assert run(queue.requeue_unheld_jobs("w", [])) == 1
    assert queued(servers, "fetch.fast") == {WORK.key}
    clock.pass_by(2)
    assert claim_and_start().starts == {WORK.key: claims.STARTED}


def report_and_finish(
    held: jobs.ClaimedJob, ending: claims.ClaimEnd | None, then: AfterReport | None = None
) -> tuple[bool, object]:
    return run(queue.report_and_finish_work(held, "m", frontier.OK, then or EndJob(held.version), ending))


def claimed_for(work: Work) -> tuple[jobs.ClaimedJob, int]:
    """The job of a work that began, and the token of its start."""
    want(work, begun(work).token)
    found = claim_and_start()
    [waiter] = found.waiters
    return found, waiter.token


def test_a_work_ends_with_the_report_of_its_job(servers: RedisServers) -> None:
    held, token = claimed_for(WORK)
    assert report_and_finish(held, claims.stored_end(WORK.key, token, 0.1)) == (True, jobs.JobEnded())
    found = look(WORK)
    assert isinstance(found, claim_state.WorkDone)
    assert found.outcome == "stored"
    assert not servers.state.client.exists("retry:{0}:leases", "fetch:{0}:leases")


def test_reports_are_taken_while_the_server_is_out_of_memory(servers: RedisServers) -> None:
    held, token = claimed_for(WORK)
    servers.state.client.config_set("maxmemory", "1")
    try:
        assert report_and_finish(held, None, HoldJob()) == (False, jobs.JobHeld())
        assert finish(WORK, token)
        assert run(queue.finish_job(held)) == jobs.JobEnded()
    finally:
        servers.state.client.config_set("maxmemory", "0")
    assert isinstance(look(WORK), claim_state.WorkDone)


def test_a_work_ends_with_its_report_while_the_server_is_out_of_memory(servers: RedisServers) -> None:
    held, token = claimed_for(WORK)
    servers.state.client.config_set("maxmemory", "1")
    try:
        assert report_and_finish(held, claims.stored_end(WORK.key, token, 0.1)) == (True, jobs.JobEnded())
    finally:
        servers.state.client.config_set("maxmemory", "0")
    assert isinstance(look(WORK), claim_state.WorkDone)


def test_a_report_whose_reply_was_lost_may_be_made_again() -> None:
    held, token = claimed_for(WORK)
    ending = claims.failed_end(WORK.key, token, PreparationError("No.", status=504), luck=0.5)
    report_and_finish(held, ending)
    assert report_and_finish(held, ending) == (True, jobs.JobLost())
    found = look(WORK)
    assert isinstance(found, claim_state.WorkFailed)
    assert (found.status, found.detail) == (504, "No.")


def test_a_work_ends_while_the_job_goes_on_for_who_joined_late() -> None:
    held, token = claimed_for(WORK)
    want(LATE, begun(LATE).token)
    ended, reply = report_and_finish(held, claims.stored_end(WORK.key, token, 0.1))
    assert ended
    assert isinstance(reply, jobs.MoreWaiters)
    assert isinstance(look(WORK), claim_state.WorkDone)
    assert isinstance(look(LATE), claim_state.ClaimTaken)


def test_a_job_ends_although_its_work_is_somebody_elses_by_now() -> None:
    held, token = claimed_for(WORK)
    assert report_and_finish(held, claims.stored_end(WORK.key, token - 1, 0.1)) == (False, jobs.JobEnded())
    assert isinstance(look(WORK), claim_state.ClaimTaken)


def test_several_reports_in_one_call_are_those_of_each_alone() -> None:
    frontier.enqueue(frontier.job("1", "a.example.com"), frontier.job("1", "b.example.com"))
    held = {job.host: job for job in (frontier.claimed(), frontier.claimed())}
    outcomes = {"a.example.com": frontier.OK, "b.example.com": frontier.THROTTLED}
    calls = [
        next(queue.report_and_finish_work(held[host], "m", outcome, EndJob(held[host].version)))
        for host, outcome in outcomes.items()
    ]
    [served, refused] = cast(list[list[bytes]], stores.execute_call(join_calls(calls).calls[0]))
    assert [served[1], refused[1]] == [b"ended", b"again"]
    assert frontier.record("a.example.com")["ok"] == "1"
    assert frontier.record("b.example.com")["throttled"] == "1"


@pytest.mark.parametrize("failing", [0, 1])
def test_a_report_that_fails_leaves_the_others_and_can_be_made_again(clock: Clock, failing: int) -> None:
    frontier.enqueue(frontier.job("1"), frontier.job("2"))
    held = [frontier.next_claimed(clock), frontier.next_claimed(clock)]
    calls = [next(queue.report_and_finish_work(job, "m", frontier.OK, EndJob(job.version))) for job in held]
    sound = calls[failing]
    calls[failing] = replace(sound, item=[*sound.item[:6], "many", *sound.item[7:]])  # not a number of bytes
    replies = cast(list[object], stores.execute_call(join_calls(calls).calls[0]))
    assert isinstance(replies[failing], Exception)
    assert replies[1 - failing] == [0, b"ended"]
    assert [frontier.record()[name] for name in ("in_flight", "ok")] == ["1", "1"]
    assert frontier.report(held[failing]) == jobs.JobEnded()
    assert [frontier.record()[name] for name in ("in_flight", "ok")] == ["0", "2"]


def test_a_report_that_is_twice_in_a_call_counts_once() -> None:
    held, token = claimed_for(WORK)
    ending = claims.stored_end(WORK.key, token, 0.1)
    call = next(queue.report_and_finish_work(held, "m", frontier.OK, EndJob(held.version), ending))
    assert stores.execute_call(join_calls([call, call]).calls[0]) == [[1, b"ended"], [1, b"stale"]]
    assert frontier.record()["ok"] == "1"
    assert frontier.record()["in_flight"] == "0"


PAIRS = [("1", "a.example.com"), ("1", "b.example.com"), ("2", "a.example.com"), ("2", "b.example.com")]
"""Names and hosts of jobs."""


def test_jobs_that_are_enqueued_in_one_call_are_counted_together(settings: Settings) -> None:
    settings.FETCH_BACKLOG = 3
    waiting = [frontier.job(name, host, priority=jobs.JobPriority.INTERACTIVE) for name, host in PAIRS]
    found = stores.run_together([queue.enqueue_job(one) for one in waiting])
    assert [type(one) for one in found] == [jobs.JobEnqueued, jobs.JobEnqueued, jobs.JobEnqueued, jobs.BacklogFull]
    assert [found[0].scope, found[1].scope] == ["a.example.com", "b.example.com"]  # type: ignore[union-attr]
    assert frontier.record("a.example.com")["fast_1"] == "2"


def test_a_job_that_cannot_be_enqueued_leaves_the_others_of_its_call() -> None:
    calls = [next(queue.enqueue_job(frontier.job(name, host))) for name, host in PAIRS]
    stores.patient_client("state").set("fetch:{0}:domain:b.example.com", "no record")
    replies = cast(list[object], stores.execute_call(join_calls(calls).calls[0]))
    assert [isinstance(reply, Exception) for reply in replies] == [False, True, False, True]
    assert frontier.record("a.example.com")["fast_3"] == "2"
