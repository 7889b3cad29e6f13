"""Metrics: times of calls to the outside, own CPU time, answers, preparations, waiting clients.

OBSERVE=0 switches all of them off. The processes of one machine share their figures through prometheus_client's
multiprocess files.
"""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from django.core.exceptions import MiddlewareNotUsed
from django.db import connections as databases
from django.http import HttpRequest, HttpResponse
from prometheus_client import Counter, Gauge, Histogram

from . import routes
from .conf import conf

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)

CALL_SECONDS = Histogram("tarry_call_seconds", "Time in calls to the outside, by kind", ["kind"], buckets=_BUCKETS)
REQUEST_CPU_SECONDS = Histogram("tarry_request_cpu_seconds", "Own CPU time of a request in main", buckets=_BUCKETS)
REQUEST_SECONDS = Histogram("tarry_request_seconds", "Time of a request in main, all included", buckets=_BUCKETS)
ANSWERS = Counter("tarry_answers", "What serve_or_defer and the waiting instance answered", ["server", "answer"])
PREPARATIONS = Counter("tarry_preparations", "Ended preparations by outcome", ["task", "outcome"])
PREPARATION_SECONDS = Histogram("tarry_preparation_seconds", "Duration of preparations", ["task"], buckets=_BUCKETS)
REPUBLISHED = Counter("tarry_republished", "Work that the sweeper published again, by reason", ["reason"])
CHILDREN_LOST = Counter("tarry_children_lost", "Processes for strangers' data that ended over it", ["kind", "reason"])
WAITING = Gauge("tarry_waiting_clients", "Clients that wait now", multiprocess_mode="livesum")

_outside: ContextVar[dict[str, float] | None] = ContextVar("outside", default=None)
_log = logging.getLogger("tarry.slow")

SLOW_SECONDS = 1.0

Metric = TypeVar("Metric", Counter, Gauge, Histogram)


@cache
def labelled_metric(metric: Metric, *labels: str) -> Metric:
    """The metric with these labels, cached: labels() searches each time, under a lock."""
    return metric.labels(*labels)


class MetricTally:
    """Adds up changes of metrics in memory, for one thread. `write` gives them to prometheus_client.

    Its files take two microseconds for each change, of which a fetcher makes seven for a page.
    """

    def __init__(self) -> None:
        self._amounts: dict[Counter | Gauge, float] = {}
        self._observed: dict[Histogram, dict[int, list[float]]] = {}
        """Number and sum of observations, by the place of their bucket."""

    def add(self, metric: Counter | Gauge, amount: float = 1) -> None:
        self._amounts[metric] = self._amounts.get(metric, 0) + amount

    def observe(self, histogram: Histogram, value: float) -> None:
        place = bisect_left(histogram._upper_bounds, value)
        counted = self._observed.setdefault(histogram, {}).setdefault(place, [0, 0])
        counted[0] += 1
        counted[1] += value

    def write(self) -> None:
        amounts, self._amounts = self._amounts, {}
        for metric, amount in amounts.items():
            metric.inc(amount)
        observed, self._observed = self._observed, {}
        for histogram, buckets in observed.items():
            for place, (number, total) in buckets.items():
                histogram._buckets[place].inc(number)
                histogram._sum.inc(total)


@contextmanager
def time_call(kind: str) -> Iterator[None]:
    """Times the block as a call to the outside: `redis.state`, `database`, `storage`, `origin`."""
    if not conf().OBSERVE:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        took = time.perf_counter() - began
        labelled_metric(CALL_SECONDS, kind).observe(took)
        if (account := _outside.get()) is not None:
            account[kind] = account.get(kind, 0.0) + took


def count_answer(server: str, answer: str) -> None:
    """Counts an answer of the server `main`, or of the waiting instance, `retry`."""
    if conf().OBSERVE:
        labelled_metric(ANSWERS, server, answer).inc()


def count_shared_answer() -> None:
    """Counts a request of main that shared the answer of another: it took no time of its own."""
    if conf().OBSERVE:
        labelled_metric(ANSWERS, "main", "shared").inc()
        REQUEST_SECONDS.observe(0)


def count_preparation(task: str, outcome: str, seconds: float, tally: MetricTally | None = None) -> None:
    """Counts an ended preparation, in the tally if there is one."""
    if not conf().OBSERVE:
        return
    ended, durations = labelled_metric(PREPARATIONS, task, outcome), labelled_metric(PREPARATION_SECONDS, task)
    if tally is None:
        ended.inc()
        durations.observe(seconds)
    else:
        tally.add(ended)
        tally.observe(durations, seconds)


def count_skip(task: str) -> None:
    """Counts a preparation that was skipped at its turn for lack of requests. It took no time."""
    if conf().OBSERVE:
        PREPARATIONS.labels(task, "skipped").inc()


def count_republication(reason: str) -> None:
    if conf().OBSERVE:
        REPUBLISHED.labels(reason).inc()


def count_lost_child(kind: str, reason: str) -> None:
    """Counts a child process that failed on strangers' data: it had `died`, or took `too long`."""
    if conf().OBSERVE:
        CHILDREN_LOST.labels(kind, reason).inc()


def count_waiting_clients(change: int) -> None:
    if conf().OBSERVE:
        WAITING.inc(change)


class AccountingMiddleware:
    """Times each request of main: its whole time, its own CPU time, and each kind of call to the outside."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not conf().OBSERVE:
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        account: dict[str, float] = {}
        entered = _outside.set(account)
        began, began_cpu = time.perf_counter(), time.thread_time()
        try:
            with databases["default"].execute_wrapper(_timed_query):
                return self.get_response(request)
        finally:
            took, cpu = time.perf_counter() - began, time.thread_time() - began_cpu
            _outside.reset(entered)
            REQUEST_SECONDS.observe(took)
            REQUEST_CPU_SECONDS.observe(cpu)
            if took > SLOW_SECONDS:
                fields = {"method": request.method, "route": routes.route_pattern(request), "seconds": took, "cpu": cpu}
                _log.warning("slow request", extra={**fields, **account})


def _timed_query(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
    with time_call("database"):
        return execute(sql, params, many, context)
