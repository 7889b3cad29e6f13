"""`/healthz`: tells whether every part of the site works. `/metrics`: the figures of this machine's processes.

`/healthz/live` and `/healthz/ready` are for balancers and for what starts processes again.

Each worker signs in to `state` with every heartbeat, about every two seconds: queues without a worker are known.

django-health-check does not replace this: under WSGI it waits for a part that hangs, where `/healthz` answers in time.
"""

import logging
import math
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from resources import machines
from resources.fetch.frontier import queue
from resources.traffic import counter
from retry import claims, lanes, responses, server_urls, servers, stores
from retry.conf import conf, partition_root

from . import exporter, figures, lane_workers, middleware

EXAMINATION_SECONDS = 2.0
PART_TIMEOUT_SECONDS = 1.0
FINDING_KEPT_SECONDS = 1.0
MAX_FINDING_AGE_SECONDS = 10.0
"""Older findings are not reported. In an outage each examination takes its whole time limit."""

OWN_INSTANCE_TIMEOUT_SECONDS = 0.5
MAX_SILENCE_SECONDS = 5.0
"""A waiting instance that is silent for longer takes its machine out of a balancer."""

Finding = dict[str, Any]

_log = logging.getLogger("tarry.health")


class UnhealthyError(Exception):
    """A part answered, but not as it should."""


@responses.read_only
def healthz(request: HttpRequest) -> JsonResponse:
    """JSON by part: 200 if all work, else 503. Repairs nothing.

    This machine and holders of METRICS_TOKEN are told the machines, too, and which of them answers.
    """
    parts = _recent_health.parts()
    works = all(part["ok"] for part in parts.values())
    fields = {"Cache-Control": "no-store", **({} if works else {"Retry-After": str(math.ceil(FINDING_KEPT_SECONDS))})}
    told = {"ok": works, "parts": parts, **(_describe_machines() if _may_see_figures(request) else {})}
    return JsonResponse(told, status=200 if works else 503, headers=fields)


def _describe_machines() -> dict[str, Any]:
    """The name of this machine, and each machine with what is wrong with it; not while `state` is away."""
    try:
        found = machines.read_machines(stores.fast_client("state"))
    except RedisError:
        return {"machine": settings.MACHINE}
    troubles = list(machines.list_troubles(found))
    listed = {
        one.name: {
            "condition": one.condition,
            "heard_seconds_ago": round(one.heard_ago_seconds, 1),
            "troubles": [text for name, text in troubles if name == one.name],
        }
        for one in found
    }
    return {"machine": settings.MACHINE, "machines": listed}


@responses.read_only
def show_live(request: HttpRequest) -> JsonResponse:
    """Tells that this process answers."""
    return JsonResponse({"ok": True}, headers={"Cache-Control": "no-store"})


@responses.read_only
def show_ready(request: HttpRequest) -> HttpResponse:
    """Tells whether clients should be sent to this machine: 503 while it drains or its waiting instance is down.

    Asks no store: all machines share them, and none would be ready without.
    """
    if settings.DRAIN_FILE.exists():
        return responses.problem_response(503, "This machine drains: it stops in a moment.", wait_seconds=1)
    if _has_waiting_clients() and not _own_instance.is_up():
        return responses.problem_response(503, "This machine's waiting instance does not answer.", wait_seconds=1)
    return show_live(request)


def _has_waiting_clients() -> bool:
    """Tells whether it is this machine's front that asks, and sends its clients to this machine's waiting instance."""
    is_divided = settings.RETRY_SERVERS or settings.MAIN_SERVERS or settings.MAIN_LISTEN
    return {"front", "retry"} <= set(settings.ROLES) and settings.RETRY_INSTANCE[:5] == "unix:" and not is_divided


@dataclass(slots=True)
class OwnInstance:
    """This machine's waiting instance, asked by a process about once a second, for any number of requests."""

    _is_up: bool = True
    _asked: float = -math.inf
    _silent_since: float = math.inf

    def is_up(self) -> bool:
        """False if it refuses, or is silent for longer than a crowd keeps it busy. While it is asked, the last word."""
        if (now := time.monotonic()) - self._asked >= FINDING_KEPT_SECONDS:
            self._asked = now
            self._is_up = self._ask(now)
        return self._is_up

    def _ask(self, now: float) -> bool:
        try:
            _check_waiting_instance(OWN_INSTANCE_TIMEOUT_SECONDS)
        except (TimeoutError, BlockingIOError, ConnectionResetError):  # it is busy, has many waiting, or is reloaded
            self._silent_since = min(self._silent_since, now)
            return now - self._silent_since < MAX_SILENCE_SECONDS
        except (OSError, UnhealthyError):
            return False
        self._silent_since = math.inf
        return True


_own_instance = OwnInstance()


@dataclass(slots=True)
class RecentHealth:
    """The last examination, reused for a second. One at a time per process, for any number of requests."""

    _parts: dict[str, Finding] = field(default_factory=dict)
    _ended: float = -math.inf
    _lock: Lock = field(default_factory=Lock)

    def parts(self) -> dict[str, Finding]:
        """The recent findings. While another request examines, these are the last ones; if they are old, it waits."""
        if not self._lock.acquire(blocking=self._age_seconds() >= MAX_FINDING_AGE_SECONDS):
            return self._parts
        try:
            if self._age_seconds() >= FINDING_KEPT_SECONDS:
                self._parts = examine_parts(HEALTH_PARTS, EXAMINATION_SECONDS)
                self._ended = time.monotonic()
            return self._parts
        finally:
            self._lock.release()

    def _age_seconds(self) -> float:
        return time.monotonic() - self._ended


_recent_health = RecentHealth()


@dataclass(slots=True)
class PartProbe:
    """The check of one part, in a thread of its own. While it hangs, later examinations share it."""

    check: Callable[[], None]
    _finding: "Future[Finding] | None" = None
    _lock: Lock = field(default_factory=Lock)

    def begin(self, name: str) -> "Future[Finding]":
        """Begins a check unless one runs. Returns the future of its finding."""
        with self._lock:
            if self._finding is None or self._finding.done():
                found = self._finding = Future[Finding]()
                Thread(target=self._run, args=(name, found), daemon=True, name=f"health-{name}").start()
            return self._finding

    def _run(self, name: str, found: "Future[Finding]") -> None:
        found.set_result(_examine_part(name, self.check))


def examine_parts(parts: Mapping[str, PartProbe], limit_seconds: float) -> dict[str, Finding]:
    """Examines all parts at once, within the limit. A part that hangs keeps one thread, not the caller."""
    futures = {name: probe.begin(name) for name, probe in parts.items()}
    _, late = wait(futures.values(), limit_seconds)
    silent = {"ok": False, "error": f"no answer in {limit_seconds:g} s"}
    return {name: silent if future in late else future.result() for name, future in futures.items()}


def _examine_part(name: str, check: Callable[[], None]) -> Finding:
    began = time.perf_counter()
    try:
        check()
    except Exception as error:  # noqa: BLE001  a failure of any kind is a finding, and is logged
        _log.warning("unhealthy", extra={"part": name, "error": f"{type(error).__name__}: {error}"})
        # Errors may name hosts and paths: the public answer has only the kind.
        return {"ok": False, "error": str(error) if isinstance(error, UnhealthyError) else type(error).__name__}
    return {"ok": True, "ms": round((time.perf_counter() - began) * 1000, 1)}


def _check_database() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()  # it belongs to this thread, and Django does not close it


def _check_redis(url: str) -> None:
    with servers.make_client(url, PART_TIMEOUT_SECONDS, Retry(NoBackoff(), 0)) as server:
        for partition in range(conf().STATE_PARTITIONS if server_urls.is_cluster(url) else 1):
            server.set(partition_root("healthz", partition), 1, ex=10)  # a full or read-only server answers PING


def _check_storage() -> None:
    default_storage.delete(default_storage.save("healthz/probe", ContentFile(b"ok")))


def _check_queues() -> None:
    consumed = [name for name, lane in conf().RETRY_LANES.items() if "publisher" not in lane]
    own = [settings.MACHINE_QUEUE] if "work" in settings.ROLES else []
    if unserved := lane_workers.list_unserved_queues([*consumed, settings.CELERY_TASK_DEFAULT_QUEUE, *own]):
        raise UnhealthyError(f"no worker for {', '.join(unserved)}")
    if unfit := lanes.list_unfit_machines():
        raise UnhealthyError(f"workers lack the database or the storage: {', '.join(unfit)}")


def _check_sweeper() -> None:
    if not claims.is_swept():
        raise UnhealthyError("no sweep for 10 s: beat or work does not run")


def _check_fetcher() -> None:
    if not stores.run_steps(queue.count_fetchers()):
        raise UnhealthyError("no fetcher seen lately: fetch does not run")


def _check_machines() -> None:
    """Requires that all machines are heard, and agree. Names are for the log: the answer is public."""
    try:
        found = machines.read_machines(stores.fast_client("state"))
    except RedisError:  # which is another part
        return
    if troubles := list(machines.list_troubles(found)):
        _log.warning("machines in trouble", extra={"troubles": [f"{name}: {text}" for name, text in troubles]})
        number = len({name for name, _ in troubles})
        raise UnhealthyError(f"trouble with {number} of {len(found)} machines: the admin's page Machines names them")


def _check_clocks() -> None:
    """Compares this machine's clock with those of `state` and of the database, as far as these answer."""
    skews = {"state": _measure_skew(_read_state_clock), "the database": _measure_skew(_read_database_clock)}
    if wrong := [
        f"{abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'} of that of {server}"
        for server, skew in skews.items()
        if abs(skew) > machines.MAX_SKEW_SECONDS
    ]:
        raise UnhealthyError(f"this clock is {' and '.join(wrong)}")


def _measure_skew(read: Callable[[], float]) -> float:
    """By how many seconds this clock is ahead, at least: the answer may have been on its way for all of the time."""
    began = time.time()
    try:
        there = read()
    except (RedisError, DatabaseError):
        return 0.0
    return max(0.0, began - there) or min(0.0, time.time() - there)


def _read_state_clock() -> float:
    return machines.read_clock(stores.fast_client("state"))


def _read_database_clock() -> float:
    """The time of PostgreSQL. SQLite has this machine's."""
    if connection.vendor != "postgresql":
        return time.time()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
            return float(cursor.fetchone()[0])
    finally:
        connection.close()


def _check_waiting_instance(timeout_seconds: float = PART_TIMEOUT_SECONDS) -> None:
    """Checks the waiting instance with a request without a ticket: a living one refuses with 400 at once."""
    if not settings.RETRY_INSTANCE:  # one development server does all
        return
    status = _status_of(settings.RETRY_INSTANCE, urlsplit(settings.RETRY_AFTER_SERVER).path, timeout_seconds)
    if status != 400:
        raise UnhealthyError(f"the waiting instance answered {status}")


def _status_of(address: str, path: str, timeout_seconds: float) -> int:
    parts = urlsplit(address)
    conn = HTTPConnection(parts.hostname or "localhost", parts.port, timeout=timeout_seconds)
    try:
        if parts.scheme == "unix":
            conn.sock = socket.socket(socket.AF_UNIX)
            conn.sock.settimeout(timeout_seconds)
            conn.sock.connect(parts.path)
        conn.request("GET", path)
        return conn.getresponse().status
    except HTTPException as error:
        raise UnhealthyError("the waiting instance does not speak HTTP") from error
    finally:
        conn.close()


HEALTH_PARTS = {
    "database": PartProbe(_check_database),
    "state": PartProbe(lambda: _check_redis(settings.REDIS_URL)),
    "cache": PartProbe(lambda: _check_redis(settings.CACHE_URL)),
    "storage": PartProbe(_check_storage),
    "workers": PartProbe(_check_queues),
    "sweeper": PartProbe(_check_sweeper),
    "fetch": PartProbe(_check_fetcher),
    "retry": PartProbe(_check_waiting_instance),
    "clocks": PartProbe(_check_clocks),
    "machines": PartProbe(_check_machines),
}


@responses.read_only
def show_metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format, for this machine and for holders of METRICS_TOKEN."""
    if not _may_see_figures(request):
        return _uncached("Metrics need a request from this machine, or METRICS_TOKEN.\n", status=403)
    if not settings.OBSERVE:
        return _uncached("Metrics are switched off (OBSERVE=0).\n", status=404)
    registries = (exporter.process_registry(), counter.requests_registry, figures.site_registry(_recent_health.parts()))
    return _uncached(b"".join(map(generate_latest, registries)), content_type=CONTENT_TYPE_LATEST)


def _may_see_figures(request: HttpRequest) -> bool:
    token = settings.METRICS_TOKEN
    return middleware.is_local_request(request) or exporter.has_token(request.headers.get("Authorization", ""), token)


def _uncached(body: str | bytes, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> HttpResponse:
    return HttpResponse(body, status=status, content_type=content_type, headers={"Cache-Control": "no-store"})
