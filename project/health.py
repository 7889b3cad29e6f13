"""`/healthz`: whether every part of the site works."""

import logging
import math
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.http import HttpRequest, JsonResponse
from redis.backoff import NoBackoff
from redis.retry import Retry

from resources.fetching.queues import frontier
from retry import claims, connections, methods
from retry.conf import conf

from . import workers

LIMIT_SECONDS = 2.0
PART_SECONDS = 1.0
KEEP_SECONDS = 1.0
OLD_SECONDS = 10.0
"""What was found so long ago is not told any more. In an outage examinations take `LIMIT_SECONDS` each."""

_log = logging.getLogger("tarry.health")
_threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="health")


class UnhealthyError(Exception):
    """A part answered, but not as it should."""


@methods.read_only
def healthz(request: HttpRequest) -> JsonResponse:
    """JSON by part: 200 when all work, else 503. Repairs nothing."""
    parts = _recent.parts()
    works = all(part["ok"] for part in parts.values())
    response = JsonResponse({"ok": works, "parts": parts}, status=200 if works else 503)
    response["Cache-Control"] = "no-store"
    if not works:
        response["Retry-After"] = str(math.ceil(KEEP_SECONDS))
    return response


@dataclass(slots=True)
class Recent:
    """The last examination, used again for a second: one at a time per process, however many ask."""

    _parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    _ended: float = -math.inf
    _lock: Lock = field(default_factory=Lock)

    def parts(self) -> dict[str, dict[str, Any]]:
        """Who comes while another one examines takes what was found last, and waits only if that is old."""
        if not self._lock.acquire(blocking=self._age_seconds() >= OLD_SECONDS):
            return self._parts
        try:
            if self._age_seconds() >= KEEP_SECONDS:
                self._parts = examine(PARTS, LIMIT_SECONDS)
                self._ended = time.monotonic()
            return self._parts
        finally:
            self._lock.release()

    def _age_seconds(self) -> float:
        return time.monotonic() - self._ended


_recent = Recent()


def examine(parts: Mapping[str, Callable[[], None]], limit_seconds: float) -> dict[str, dict[str, Any]]:
    """Examines all parts at once, within the limit. A part that hangs keeps one thread, not the caller."""
    futures = {name: _threads.submit(_examine_part, name, check) for name, check in parts.items()}
    wait(futures.values(), limit_seconds)
    return {name: _finding(future, limit_seconds) for name, future in futures.items()}


def _finding(future: "Future[dict[str, Any]]", limit_seconds: float) -> dict[str, Any]:
    if future.done():
        return future.result()
    future.cancel()
    return {"ok": False, "error": f"no answer in {limit_seconds:g} s"}


def _examine_part(name: str, check: Callable[[], None]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        check()
    except Exception as error:  # noqa: BLE001  a failure of any kind is a finding, and is logged
        _log.warning("unhealthy", extra={"part": name, "error": f"{type(error).__name__}: {error}"})
        # Errors may name hosts and paths: the public answer has only the kind.
        return {"ok": False, "error": str(error) if isinstance(error, UnhealthyError) else type(error).__name__}
    return {"ok": True, "ms": round((time.perf_counter() - began) * 1000, 1)}


def _database() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        connection.close()  # it belongs to this thread, which Django does not look after


def _redis(url: str) -> None:
    with redis.Redis.from_url(
        url, socket_timeout=PART_SECONDS, socket_connect_timeout=PART_SECONDS, retry=Retry(NoBackoff(), 0)
    ) as server:
        # A write, since a full or read-only server still answers PING.
        server.set("healthz", 1, ex=10)


def _storage() -> None:
    """Writes and deletes a small file."""
    name = default_storage.save("healthz/probe", ContentFile(b"ok"))
    default_storage.delete(name)


def _queues() -> None:
    consumed = [name for name, lane in conf().RETRY_LANES.items() if "publisher" not in lane]
    unserved = workers.missing([*consumed, settings.CELERY_TASK_DEFAULT_QUEUE])
    if unserved:
        raise UnhealthyError(f"no worker for {', '.join(unserved)}")


def _sweeper() -> None:
    """Work that was lost is found again only while beat and a worker sweep."""
    if not connections.client("state").exists(claims.SWEPT):
        raise UnhealthyError("nobody has swept for 10 s: beat or work does not run")


def _fetcher() -> None:
    if not connections.run(frontier.fetchers()):
        raise UnhealthyError("no fetcher has been seen for a while: fetch does not run")


def _waiting_instance() -> None:
    """Asks without a ticket: a living instance refuses with 400 at once."""
    if not settings.RETRY_INSTANCE:  # one development server does all
        return
    status = _status_of(settings.RETRY_INSTANCE, urlsplit(settings.RETRY_AFTER_SERVER).path)
    if status != 400:
        raise UnhealthyError(f"the waiting instance answered {status}")


def _status_of(address: str, path: str) -> int:
    parts = urlsplit(address)
    conn = HTTPConnection(parts.hostname or "localhost", parts.port, timeout=PART_SECONDS)
    try:
        if parts.scheme == "unix":
            conn.sock = socket.socket(socket.AF_UNIX)
            conn.sock.settimeout(PART_SECONDS)
            conn.sock.connect(parts.path)
        conn.request("GET", path)
        return conn.getresponse().status
    except HTTPException as error:
        raise UnhealthyError("the waiting instance does not speak HTTP") from error
    finally:
        conn.close()


PARTS: dict[str, Callable[[], None]] = {
    "database": _database,
    "state": lambda: _redis(settings.REDIS_URL),
    "cache": lambda: _redis(settings.CACHE_URL),
    "storage": _storage,
    "workers": _queues,
    "sweeper": _sweeper,
    "fetch": _fetcher,
    "retry": _waiting_instance,
}
