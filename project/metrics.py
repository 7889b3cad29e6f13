"""`/metrics`: the figures of all processes of this machine together."""

import os
from collections.abc import Iterable
from pathlib import Path
from secrets import compare_digest

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Metric, generate_latest, multiprocess

from resources.traffic import collecting
from retry import methods

from . import addresses


@methods.read_only
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus' text format, for this machine and for holders of METRICS_TOKEN."""
    if not (addresses.is_local(request) or _has_token(request)):
        return _plain("Metrics are for this machine, or for a bearer of METRICS_TOKEN.\n", 403)
    if not settings.OBSERVE:
        return _plain("Metrics are switched off (OBSERVE=0).\n", 404)
    figures = generate_latest(_registry()) + generate_latest(collecting.registry)
    response = HttpResponse(figures, content_type=CONTENT_TYPE_LATEST)
    response["Cache-Control"] = "no-store"
    return response


def _registry() -> CollectorRegistry:
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:  # one process, as in development
        return REGISTRY
    _forget_the_dead(Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]))
    registry = CollectorRegistry()
    _Collector(registry)  # type: ignore[no-untyped-call]
    return registry


class _Collector(multiprocess.MultiProcessCollector):
    """Reads what processes have written. The file of one that has just begun is empty for a moment."""

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
    """Takes the gauges of processes that were killed together with their parent out of the figures."""
    for file in directory.glob("gauge_live*_*.db"):
        if not _lives(Path("/proc", file.stem.rpartition("_")[2])):
            file.unlink(missing_ok=True)  # another thread may be at it


def _lives(process: Path) -> bool:
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"  # a zombie waits for its parent only
    except OSError:
        return False


def _has_token(request: HttpRequest) -> bool:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    wanted = settings.METRICS_TOKEN
    return bool(wanted) and scheme.lower() == "bearer" and compare_digest(token.encode(), wanted.encode())


def _plain(text: str, status: int) -> HttpResponse:
    response = HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")
    response["Cache-Control"] = "no-store"
    return response
