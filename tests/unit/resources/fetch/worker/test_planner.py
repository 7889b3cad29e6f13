"""Requests of many jobs are planned together, where the task can; results of threads come to the loop together."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, current_thread, main_thread

import pytest
from pytest_django import Settings

from resources.fetch.http.messages import FetchRequest
from resources.fetch.task import CallPlan, TaskCall
from resources.fetch.worker.handovers import HandoverResults
from resources.fetch.worker.planner import RequestPlanner
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pages")]

URL = "https://a.example.com/"


class Bulk:
    """Plans many at once, but for those named `odd`: with them, it fails. Notes how many came together."""

    obeys_robots = False

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.may_go_on = Event()

    def fetch(self, *arguments: Argument) -> FetchRequest:
        if arguments[1] == "odd":
            raise RuntimeError("odd")
        return FetchRequest(str(arguments[0]))

    def fetch_many(self, calls: Sequence[tuple[tuple[Argument, ...], int]]) -> list[CallPlan]:
        assert current_thread() is not main_thread()
        self.batches.append(len(calls))
        self.may_go_on.wait(10)
        if any(arguments[1] == "odd" for arguments, _ in calls):
            raise RuntimeError("odd")
        refused = PreparationError("No.", status=404)
        return [refused if name == "refused" else FetchRequest(str(url)) for (url, name), _ in calls]


BULK = Bulk()


@pytest.fixture(autouse=True)
def _bulk(pages: None, settings: Settings) -> None:
    settings.FETCH_TASKS = {"tests.bulk": f"{__name__}.BULK"}
    BULK.batches.clear()
    BULK.may_go_on.set()


def call(name: str) -> TaskCall:
    return TaskCall("tests.bulk", name, 1, (f"{URL}{name}", name))


async def test_jobs_that_come_meanwhile_are_planned_in_one_thread() -> None:
    planner = RequestPlanner()
    BULK.may_go_on.clear()
    plans = [asyncio.create_task(planner.plan([call(str(number))])) for number in range(20)]
    plans.append(asyncio.create_task(planner.plan([call("refused")])))
    while not BULK.batches:
        await asyncio.sleep(0.01)
    BULK.may_go_on.set()
    *found, refused = await asyncio.gather(*plans)
    assert [plan.fetch.url for plan in found if plan.fetch] == [f"{URL}{number}" for number in range(20)]
    assert [plan.fetch.headers for plan in found if plan.fetch] == [{"X-Host": "a.example.com"}] * 20
    assert (refused.fetch, list(refused.impossible)) == (None, [call("refused")])
    assert len(BULK.batches) <= 3


async def test_a_job_that_cannot_be_planned_takes_no_other_along() -> None:
    planner = RequestPlanner()
    found = await asyncio.gather(
        *(planner.plan([call(name)]) for name in ("one", "odd", "two")), return_exceptions=True
    )
    assert [type(one).__name__ for one in found] == ["FetchPlan", "RuntimeError", "FetchPlan"]


async def test_results_and_errors_of_threads_reach_those_who_still_wait() -> None:
    results = HandoverResults()
    handed: list[Future[Mapping[str, Prepared]]] = [Future() for _ in range(4)]
    waiting = [asyncio.create_task(results.wait_for(one)) for one in handed]
    await asyncio.sleep(0)
    waiting[3].cancel()
    content = {"key": Prepared(b"", "text/plain", 1, 0)}
    with ThreadPoolExecutor(1) as threads:
        for one in (handed[0], handed[3], handed[2]):
            threads.submit(one.set_result, content)
        threads.submit(handed[1].set_exception, PreparationError("No."))
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert found[0] == found[2] == content
    assert isinstance(found[1], PreparationError)
    assert isinstance(found[3], asyncio.CancelledError)
