"""Works of the deferral protocol that start and end with the job that they want, in one step with it."""

from dataclasses import replace

import pytest
from pytest_django import Settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import (
    ClaimedJob,
    DeadJob,
    JobEnded,
    JobLost,
    JobRequeued,
    MoreWaiters,
    RequestReport,
    Waiter,
)
from resources.fetch.frontier.queue import AfterReport, EndJob, PutJobBack, RetryJob
from retry import claim_state, claims
from retry.errors import PreparationError
from retry.stores import run_steps
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import begun, finish, look, queued, start, started
from tests.support.frontier import FAILED, OK, THROTTLED, UNSENT, claimed, enqueue, job, report
from tests.support.frontier_clock import Clock

WORK = Work("work:page", "tests.page", "fetch.fast", "fetch.refresh", "page", ("https://a.example.com/1",))
LATE = replace(WORK, key="work:late")


def claim_and_start() -> ClaimedJob | DeadJob:
    """The next job, with its waiters."""
    [found, *_] = run_steps(queue.claim_jobs("w", "m", 1, {"fast": 1, "slow": 1}, claims.start_terms()))
    assert isinstance(found, ClaimedJob | DeadJob), found
    return found


def want(work: Work, token: int, *, obeys_robots: bool = False, expires_at: float | None = None) -> None:
    enqueue(job("1", waiter=Waiter(work.key, "{}", token), obeys_robots=obeys_robots, expires_at=expires_at))


@pytest.mark.usefixtures("clock")
def test_works_start_with_the_job_that_they_want(servers: RedisServers) -> None:
    tokens = {work: begun(work).token for work in (WORK, LATE)}
    for work, token in tokens.items():
        want(work, token)
    found = claim_and_start()
    assert isinstance(found, ClaimedJob)
    assert found.starts == {WORK.key: claims.STARTED, LATE.key: claims.STARTED}
    assert queued(servers, "fetch.fast") == set()
    for work, token in tokens.items():
        assert not start(work, token)
        assert finish(work, token)


@pytest.mark.usefixtures("clock")
def test_work_that_goes_on_elsewhere_or_has_ended_does_not_start_with_its_job() -> None:
    token, ended = begun(WORK).token, begun(LATE).token
    want(WORK, token)
    want(LATE, ended)
    assert start(WORK, token)
    assert finish(LATE, ended)
    found = claim_and_start()
    assert isinstance(found, ClaimedJob)
    assert found.starts == {WORK.key: 0, LATE.key: 0}
    assert isinstance(look(WORK), claim_state.ClaimTaken)


@pytest.mark.usefixtures("clock")
def test_nothing_starts_with_a_turn_that_is_for_robots_txt() -> None:
    token = begun(WORK).token
    want(WORK, token, obeys_robots=True)
    found = claim_and_start()
    assert isinstance(found, ClaimedJob)
    assert found.needs_robots
    assert found.starts == {}
    assert start(WORK, token)


def test_works_start_with_a_dead_job(clock: Clock) -> None:
    token = begun(WORK).token
    want(WORK, token, expires_at=clock.unix + 1)
    clock.pass_by(2)
    found = claim_and_start()
    assert isinstance(found, DeadJob)
    assert found.job.starts == {WORK.key: claims.STARTED}


def test_works_are_told_of_a_dead_job_whose_fetcher_dies(clock: Clock, settings: Settings) -> None:
    token = begun(WORK).token
    want(WORK, token, expires_at=clock.unix + 1)
    clock.pass_by(2)
    claim_and_start()
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 1)
    found = claim_and_start()
    assert isinstance(found, DeadJob)
    assert found.job.starts == {WORK.key: claims.STARTED}


def test_works_are_told_at_once_of_a_job_that_has_lost_its_fetcher_twice(clock: Clock, settings: Settings) -> None:
    token = begun(WORK).token
    want(WORK, token)
    claimed()  # by a fetcher that dies before it starts anything
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 1)
    claim_and_start()
    clock.pass_by(settings.FETCH_LEASE_SECONDS + 1)
    found = claim_and_start()
    assert isinstance(found, DeadJob)
    assert found.why == "lapsed"
    assert found.job.starts == {WORK.key: claims.STARTED}


def test_what_started_with_a_job_that_never_came_to_its_worker_waits_again(clock: Clock, servers: RedisServers) -> None:
    token = begun(WORK).token
    want(WORK, token)
    claim_and_start()
    clock.pass_by(1)
    assert run_steps(queue.requeue_unheld_jobs("w", [])) == 1
    assert queued(servers, "fetch.fast") == {WORK.key}
    found = claim_and_start()
    assert isinstance(found, ClaimedJob)
    assert found.starts == {WORK.key: claims.STARTED}


def test_work_that_had_started_elsewhere_goes_on_there_when_its_job_goes_back(clock: Clock) -> None:
    token = begun(WORK).token
    want(WORK, token)
    assert start(WORK, token, "elsewhere")
    claim_and_start()
    clock.pass_by(1)
    assert run_steps(queue.requeue_unheld_jobs("w", [])) == 1
    assert started(WORK, token, "elsewhere") == claims.STARTED


@pytest.mark.parametrize(
    ("came", "then"),
    [(UNSENT, PutJobBack()), (FAILED, RetryJob(2)), (THROTTLED, None)],
    ids=["put back", "tried again", "throttled"],
)
def test_what_started_with_a_job_waits_again_in_the_step_in_which_that_does(
    came: RequestReport, then: AfterReport | None, clock: Clock, servers: RedisServers
) -> None:
    token = begun(WORK).token
    want(WORK, token)
    held = claim_and_start()
    assert isinstance(held, ClaimedJob)
    reply = report(held, came, then)
    assert isinstance(reply, JobRequeued)
    assert queued(servers, "fetch.fast") == {WORK.key}
    clock.pass_by(max(reply.wait_seconds, 1))
    found = claim_and_start()
    assert isinstance(found, ClaimedJob)
    assert found.starts == {WORK.key: claims.STARTED}


@pytest.mark.usefixtures("clock")
def test_work_that_goes_on_elsewhere_does_not_wait_again_with_a_job() -> None:
    token = begun(WORK).token
    want(WORK, token)
    assert start(WORK, token, "elsewhere")
    held = claim_and_start()
    assert isinstance(held, ClaimedJob)
    report(held, UNSENT, PutJobBack())
    assert started(WORK, token, "elsewhere") == claims.STARTED


def report_and_finish(held: ClaimedJob, ending: claims.ClaimEnd) -> tuple[bool, object]:
    return run_steps(queue.report_and_finish_work(held, "m", OK, EndJob(held.version), ending))


def claimed_for(work: Work) -> tuple[ClaimedJob, int]:
    """The job of a work that began, and the work's token."""
    token = begun(work).token
    want(work, token)
    found = claim_and_start()
    assert isinstance(found, ClaimedJob)
    return found, token


@pytest.mark.usefixtures("clock")
def test_a_work_ends_with_the_report_of_its_job(servers: RedisServers) -> None:
    held, token = claimed_for(WORK)
    assert report_and_finish(held, claims.stored_end(WORK.key, token, 0.1)) == (True, JobEnded())
    found = look(WORK)
    assert isinstance(found, claim_state.WorkDone)
    assert found.outcome == "stored"
    assert not servers.state.client.exists("retry:leases", "fetch:leases")


@pytest.mark.usefixtures("clock")
def test_a_report_whose_reply_was_lost_may_be_made_again() -> None:
    held, token = claimed_for(WORK)
    ending = claims.failed_end(WORK.key, token, PreparationError("No.", status=504), luck=0.5)
    report_and_finish(held, ending)
    assert report_and_finish(held, ending) == (True, JobLost())
    found = look(WORK)
    assert isinstance(found, claim_state.WorkFailed)
    assert (found.status, found.detail) == (504, "No.")


@pytest.mark.usefixtures("clock")
def test_a_work_ends_while_the_job_goes_on_for_who_joined_late() -> None:
    held, token = claimed_for(WORK)
    want(LATE, begun(LATE).token)
    ended, reply = report_and_finish(held, claims.stored_end(WORK.key, token, 0.1))
    assert ended
    assert isinstance(reply, MoreWaiters)
    assert isinstance(look(WORK), claim_state.WorkDone)
    assert isinstance(look(LATE), claim_state.ClaimTaken)


@pytest.mark.usefixtures("clock")
def test_a_job_ends_although_its_work_is_somebody_elses_by_now() -> None:
    held, token = claimed_for(WORK)
    assert report_and_finish(held, claims.stored_end(WORK.key, token - 1, 0.1)) == (False, JobEnded())
    assert isinstance(look(WORK), claim_state.ClaimTaken)
