"""The figures of the whole site in `/metrics`: its parts, its lanes, the memory of `state`, and its machines.

Every machine tells the same of them. Figures that a store does not answer for are left out.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from django.conf import settings
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from redis import Redis
from redis.exceptions import RedisError

from resources import machines
from resources.machines import HeardMachine
from retry import claims, server_urls, stores
from retry.conf import conf
from retry.errors import StoreUnavailable

Parts = Mapping[str, Mapping[str, Any]]


class SiteCollector(Collector):
    """Collects the figures at each scrape. `parts` are the recent findings of `/healthz`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        yield _gauge("part_up", "1 while /healthz finds the part well", ["part"], _list_parts(self._parts))
        for make in (_measure_lanes, _measure_memory, _measure_machines):
            with suppress(RedisError, StoreUnavailable):
                yield from list(make(stores.fast_client("state")))


def site_registry(parts: Parts) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(SiteCollector(parts))
    return registry


Row = tuple[Sequence[str], float]
"""The values of the labels, and the figure."""


def _gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"tarry_{name}", text, labels=labels)
    for values, number in rows:
        family.add_metric(values, number)
    return family


def _list_parts(parts: Parts) -> Iterator[Row]:
    return (([name], float(part["ok"])) for name, part in parts.items())


def _measure_lanes(_: Redis) -> Iterator[Metric]:
    """Yields the waiting work of each lane, its limit, workers, and the expected wait of work that comes now."""
    lanes = conf().RETRY_LANES
    waiting = claims.count_queued(list(lanes))
    seconds = claims.load_durations(lanes)
    workers = {lane: conf().lane_workers(lane) for lane in lanes}
    waits = {lane: waiting[lane] * seconds[lane] / workers[lane] for lane in waiting if lane in seconds}
    yield _gauge("lane_waiting", "Work that waits in the lane", ["lane"], _by_name(waiting))
    limits = {lane: bounds["limit"] for lane, bounds in lanes.items()}
    yield _gauge("lane_limit", "The most work that may wait in it", ["lane"], _by_name(limits))
    yield _gauge("lane_workers", "Its workers, on all machines", ["lane"], _by_name(workers))
    yield _gauge("lane_wait_seconds", "The expected wait of work that comes now", ["lane"], _by_name(waits))


def _by_name(figures: Mapping[str, float]) -> Iterator[Row]:
    return (([name], number) for name, number in figures.items())


def _measure_memory(client: Redis) -> Iterator[Metric]:
    if server_urls.is_cluster(conf().REDIS_URL):
        nodes: dict[str, Any] = client.info("memory", target_nodes="primaries")
    else:
        nodes = {"": client.info("memory")}
    used = [([str(node)], float(info["used_memory"])) for node, info in nodes.items()]
    most = [([str(node)], float(info["maxmemory"] or settings.STATE_MAX_BYTES)) for node, info in nodes.items()]
    yield _gauge("state_memory_bytes", "Memory that state uses", ["node"], used)
    yield _gauge("state_memory_max_bytes", "Memory that it may use", ["node"], most)


_OF_MACHINES: tuple[tuple[str, str, Callable[[HeardMachine], float]], ...] = (
    ("up", "1 while the machine is heard, 0 once it is stopped or overdue", lambda one: one.is_alive),
    ("overdue", "1 while the machine is silent without having been stopped", lambda one: one.is_overdue),
    ("heard_seconds", "Seconds since the machine was heard", lambda one: one.heard_ago_seconds),
    ("clock_skew_seconds", "By how much its clock is ahead of that of state", lambda one: one.skew_seconds),
    ("disk_bytes", "The size of the file system of its DATA_DIR", lambda one: one.disk_bytes),
    ("disk_free_bytes", "The free bytes of that file system", lambda one: one.disk_free_bytes),
    ("disk_trouble", "1 while its site has no room within DISK_MAX_BYTES", lambda one: bool(one.disk_trouble)),
    ("start_time_seconds", "When its supervisord started", lambda one: _started_at(one, time.time())),
)


def _started_at(machine: HeardMachine, now_seconds: float) -> float:
    return round(now_seconds - machine.heard_ago_seconds - machine.up_seconds)


def _measure_machines(client: Redis) -> Iterator[Metric]:
    found = machines.read_machines(client)
    for name, text, measure in _OF_MACHINES:
        yield _gauge(f"machine_{name}", text, ["machine"], (([one.name], float(measure(one))) for one in found))
    bounds = [([one.name], float(one.disk_max_bytes)) for one in found if one.disk_max_bytes]
    yield _gauge("machine_disk_max_bytes", "DISK_MAX_BYTES", ["machine"], bounds)
    parts = [([one.name, part], float(size)) for one in found for part, size in one.disk_parts.items()]
    yield _gauge("machine_disk_part_bytes", "What a part of its site takes of the disk", ["machine", "part"], parts)
    processes = [
        ([one.name, role, state], float(number))
        for one in found
        for role, counts in one.count_by_role().items()
        for state, number in zip(("running", "wanted"), counts, strict=True)
    ]
    yield _gauge("machine_processes", "Its processes: running, wanted", ["machine", "role", "state"], processes)
    infos = [([one.name, one.version, ",".join(one.roles)], 1.0) for one in found]
    yield _gauge("machine_info", "Its version and roles", ["machine", "version", "roles"], infos)
    differing = [
        ([one.name, setting, other], 1.0)
        for one in found
        if one.is_alive
        for setting, other in machines.list_differences(one.name, one.digests, found)
    ]
    labels = ["machine", "setting", "other"]
    yield _gauge("machine_setting_differs", "A setting that another machine has otherwise", labels, differing)
