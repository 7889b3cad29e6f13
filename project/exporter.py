"""`gunicorn project.exporter:application`: figures of the processes of a machine that no front answers for.

It answers `/metrics` at METRICS_LISTEN: to this machine, and to bearers of METRICS_TOKEN. The processes write what
they count into files of prometheus_client's multiprocess directory. Imports nothing of Django.
"""

import os
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from pathlib import Path
from secrets import compare_digest
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest, multiprocess

FOUND = "200 OK"
PLAIN_TEXT = "text/plain; charset=utf-8"

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


def application(environment: dict[str, Any], start_response: StartResponse) -> list[bytes]:
    status, body = _find_answer(environment)
    kind = CONTENT_TYPE_LATEST if status == FOUND else PLAIN_TEXT
    fields = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
    start_response(status, fields)
    return [body]


def _find_answer(environment: dict[str, Any]) -> tuple[str, bytes]:
    if environment["PATH_INFO"] != "/metrics":
        return "404 Not Found", b"Only /metrics is here.\n"
    if environment["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return "405 Method Not Allowed", b"Only GET and HEAD are answered.\n"
    given: str = environment.get("HTTP_AUTHORIZATION", "")
    is_local = ip_address(environment["REMOTE_ADDR"]).is_loopback and "HTTP_X_FORWARDED_FOR" not in environment
    if not is_local and not has_token(given, os.environ.get("METRICS_TOKEN", "")):
        return "403 Forbidden", b"Metrics need a request from this machine, or METRICS_TOKEN.\n"
    return FOUND, generate_latest(process_registry())


def has_token(authorization: str, wanted: str) -> bool:
    """Tells whether the field is `Bearer` with this token. No field has an empty one."""
    scheme, _, token = authorization.partition(" ")
    return bool(wanted) and scheme.lower() == "bearer" and compare_digest(token.encode(), wanted.encode())


def process_registry() -> CollectorRegistry:
    """The figures of this machine's processes; of this process alone where it shares none, as in development."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY
    _forget_the_dead(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
    registry = CollectorRegistry()
    _WrittenCollector(registry)  # type: ignore[no-untyped-call]
    return registry


class _WrittenCollector(multiprocess.MultiProcessCollector):
    """Reads the processes' files. The file of a process that has just begun is empty for a moment."""

    def collect(self) -> Iterable[Metric]:
        files = [str(file) for file in Path(self._path).glob("*.db") if _is_written(file)]
        metrics: Iterable[Metric] = self.merge(files, accumulate=True)  # type: ignore[no-untyped-call]
        return metrics


def _is_written(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:  # of a process that has just ended
        return False


def _forget_the_dead(directory: Path) -> None:
    """Removes the gauges of processes that were killed together with their parent from the figures."""
    for file in directory.glob("gauge_live*_*.db"):
        if not _is_alive(Path("/proc", file.stem.rpartition("_")[2])):
            file.unlink(missing_ok=True)  # another thread may remove it, too


def _is_alive(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"  # a zombie waits for its parent only
    except OSError:
        return False
