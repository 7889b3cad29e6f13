"""The requests of jobs, planned from the calls that wait for them.

Plans of a task that can plan many at once gather, while some are under way, for the next thread.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from resources.database import run_in_thread
from retry.contents import Prepared
from retry.errors import PreparationError

from .. import conf as fetch_conf
from .. import host_settings
from ..host_settings import HostHeader
from ..http.limit_scopes import url_scopes
from ..http.messages import FetchRequest
from ..task import BulkFetchTask, CallPlan, TaskCall, fence_of, find_bulk_task, is_at_once, sends_secrets

MAX_JOBS_PER_THREAD = 100
MAX_THREADS = 2
"""Threads that plan for one task at a time: one reads rows while the other computes."""

_log = logging.getLogger("tarry.fetching")


@dataclass(slots=True)
class FetchPlan:
    """The request, None without one; the impossible task calls, and those already done."""

    fetch: FetchRequest | None = None
    impossible: dict[TaskCall, PreparationError] = field(default_factory=dict)
    done: dict[TaskCall, Mapping[str, Prepared]] = field(default_factory=dict)


def plan_request(calls: Sequence[TaskCall]) -> FetchPlan:
    """Plans the request of the task calls. Runs in a thread. Raises unexpected errors of a task."""
    return _plan_with_headers(calls, _ask_task, host_settings.headers_for_url)


def plan_request_at_once(calls: Sequence[TaskCall]) -> FetchPlan | None:
    """Plans without a thread; returns None if a task might have to wait. Raises as `plan_request` does."""
    known = host_settings.headers_snapshot.current()
    if known is None or not all(is_at_once(fetch_conf.find_task(call.task)) for call in calls):
        return None
    return _plan_with_headers(calls, _ask_task, partial(host_settings.find_headers, known))


def plan_requests(jobs: Sequence[Sequence[TaskCall]], task: BulkFetchTask) -> list[FetchPlan]:
    """Plans the requests of many jobs of the task. Runs in a thread. Raises unexpected errors of the task."""
    calls = [call for job in jobs for call in job]
    answers = task.fetch_many([(call.arguments, call.token) for call in calls])
    plans = dict(zip(calls, answers, strict=True))
    return [_plan_with_headers(job, plans.__getitem__, host_settings.headers_for_url) for job in jobs]


def _ask_task(call: TaskCall) -> CallPlan:
    task = fetch_conf.find_task(call.task)
    try:
        return task.fetch(*call.arguments, **fence_of(task, call))
    except PreparationError as error:
        return error


def _plan_with_headers(
    calls: Sequence[TaskCall],
    ask: Callable[[TaskCall], CallPlan],
    headers_of: Callable[[str], Sequence[HostHeader]],
) -> FetchPlan:
    planned: list[FetchRequest] = []
    found = FetchPlan()
    for call in calls:
        match ask(call):
            case PreparationError() as error:
                found.impossible[call] = error
            case FetchRequest() as fetch:
                planned.append(fetch)
            case done:
                found.done[call] = done
    if planned:
        fetch = planned[0]
        if len(planned) > 1:  # a body that is not modified for one call may be new to another
            fetch = replace(fetch, etag=None, last_modified=None, head_first=False)
        headers = headers_of(fetch.url)
        found.fetch = _add_headers(fetch, headers, calls) if headers else fetch
    return found


def _add_headers(fetch: FetchRequest, headers: Sequence[HostHeader], calls: Sequence[TaskCall]) -> FetchRequest:
    """Adds the fields of the host. Secrets go where an admin has chosen the URL, or allows any."""
    is_chosen = all(sends_secrets(fetch_conf.find_task(call.task)) for call in calls)
    sent = [each for each in headers if is_chosen or each.to_any_address]
    plain = {each.name: each.value for each in sent if each.over_http}
    secrets = {each.name: each.value for each in sent if not each.over_http}
    if is_chosen and secrets and fetch.url[:5].lower() == "http:":
        host_settings.log_withheld(url_scopes(fetch.url).host, secrets)
    return replace(fetch, headers={**fetch.headers, **plain}, secrets={**fetch.secrets, **secrets})


class RequestPlanner:
    """Plans the requests of one fetcher's jobs. For one event loop."""

    def __init__(self) -> None:
        self._lines: dict[str, _PlanLine] = {}

    async def plan(self, calls: Sequence[TaskCall]) -> FetchPlan:
        """Returns the plan for the calls of a job, which are of one task. Raises unexpected errors of the task."""
        if not calls:
            return FetchPlan()
        plan = plan_request_at_once(calls)
        if plan is not None:
            return plan
        task = find_bulk_task(fetch_conf.find_task(calls[0].task))
        if task is None:
            return await run_in_thread(plan_request, calls)
        return await self._lines.setdefault(calls[0].task, _PlanLine(task)).ask(calls)


class _PlanLine:
    """The jobs that wait for a thread to plan for one task."""

    def __init__(self, task: BulkFetchTask) -> None:
        self._task = task
        self._waiting: list[tuple[Sequence[TaskCall], asyncio.Future[FetchPlan]]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    def ask(self, calls: Sequence[TaskCall]) -> "asyncio.Future[FetchPlan]":
        future: asyncio.Future[FetchPlan] = asyncio.get_running_loop().create_future()
        self._waiting.append((calls, future))
        if len(self._under_way) < MAX_THREADS:
            task = asyncio.create_task(self._work())
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        return future

    async def _work(self) -> None:
        while self._waiting:
            taken, self._waiting = self._waiting[:MAX_JOBS_PER_THREAD], self._waiting[MAX_JOBS_PER_THREAD:]
            plans = await run_in_thread(self._plan, [calls for calls, _ in taken])
            for (_, future), plan in zip(taken, plans, strict=True):
                if future.done():  # the caller is gone
                    continue
                if isinstance(plan, Exception):
                    future.set_exception(plan)
                else:
                    future.set_result(plan)

    def _plan(self, jobs: Sequence[Sequence[TaskCall]]) -> list[FetchPlan | Exception]:
        """Returns plans, or errors. After an unexpected error each job is planned alone."""
        try:
            return [*plan_requests(jobs, self._task)]
        except Exception:  # noqa: BLE001  the edge of a thread: the job that is the cause fails alone
            _log.exception("requests cannot be planned together", extra={"jobs": len(jobs)})
        return [_plan_alone(calls) for calls in jobs]


def _plan_alone(calls: Sequence[TaskCall]) -> FetchPlan | Exception:
    try:
        return plan_request(calls)
    except Exception as error:  # noqa: BLE001  passed on to the job
        return error
