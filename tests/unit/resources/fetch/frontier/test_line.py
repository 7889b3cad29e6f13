"""The place of a job in the line of its domain: the number that the waiting page tells."""

import pytest

from resources.fetch.frontier.jobs import FetchJob, JobPriority, Waiter, job_key
from resources.fetch.frontier.queue import count_jobs_before
from retry import stores
from retry.work import Work
from tests.support.claim_calls import begun
from tests.support.frontier import claimed, enqueue

pytestmark = pytest.mark.usefixtures("clock")


def queued(name: str, **given: object) -> str:
    """The key of a work whose job is enqueued as dispatch does it."""
    work = Work(f"fetch:{name}", "fetch", "fetch.fast", "fetch.refresh", "t")
    url = f"https://a.example.com/{name}"
    waiter = Waiter(work.key, token=begun(work).token)
    enqueue(FetchJob(url, job_key("t", "", url), waiter, **given))  # type: ignore[arg-type]
    return work.key


def before(work_key: str) -> int | None:
    return stores.run_steps(count_jobs_before(work_key))


def test_earlier_jobs_and_those_of_a_better_priority_come_before() -> None:
    first, second = queued("1", priority=JobPriority.ORDINARY), queued("2", priority=JobPriority.ORDINARY)
    urgent = queued("3", priority=JobPriority.INTERACTIVE)
    queued("4", lane="slow", priority=JobPriority.INTERACTIVE)
    assert [before(work) for work in (urgent, first, second)] == [0, 1, 2]


def test_nothing_comes_before_a_request_that_was_sent_or_is_unknown() -> None:
    work = queued("1")
    assert before(work) == 0
    assert claimed().waiters[0].id == work
    assert before(work) is None
    assert before("w:none") is None
