"""The domain queues on one Redis: jobs claimed and reported, however many domains there are, and their memory."""

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from pathlib import Path

from django.conf import settings

from benchmarks.figures import Figure, Note
from resources.fetching.queues import frontier, tuning
from resources.fetching.queues.frontier import End
from resources.fetching.queues.jobs import Claimed, Job, Report, Verdict, Wish
from retry import connections
from tests.redis_servers import RedisServer

DOMAINS = (10, 1_000, 100_000)
SECONDS = 5
DUE_A_SECOND = 20_000
"""So many requests a second would all domains together allow: there is always one that is due."""
GROWTH = round(log(DOMAINS[-1]) / log(DOMAINS[1]), 2)
"""Logarithmic at worst."""
QUEUED_DOMAINS = 10_000
KILOBYTE = 1024
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """Jobs a second through one client, and Redis' own microseconds for each."""

    jobs: float
    microseconds: float


def measure() -> Iterator[Figure | Note]:
    """Each job is claimed, reported and followed by another of its domain; Redis' own time for it counts."""
    with _redis() as server:
        yield _memory(server)
        paces = {}
        for domains in DOMAINS:
            paces[domains] = _pace(server, domains)
            yield Figure(f"jobs claimed and reported, {domains:,} domains", paces[domains].jobs, "/s")
            yield Figure("Redis' own time for each", paces[domains].microseconds, "µs")
    growth = paces[DOMAINS[-1]].microseconds / paces[DOMAINS[1]].microseconds
    yield Figure(f"the same, {DOMAINS[-1]:,} domains ÷ {DOMAINS[1]:,}", growth, at_most=GROWTH)


def _memory(server: RedisServer) -> Figure:
    before = _used(server)
    _fill(server, QUEUED_DOMAINS)
    each = (_used(server) - before) / QUEUED_DOMAINS / KILOBYTE
    server.client.flushall()
    return Figure(f"memory of a domain with one queued job, {QUEUED_DOMAINS:,} domains", each, "KB")


def _pace(server: RedisServer, domains: int) -> Pace:
    settings.FETCH_DELAY_SECONDS = domains / DUE_A_SECOND
    tuning.politeness.cache_clear()
    server.client.flushall()
    _fill(server, max(domains, 2_000), over=domains)
    server.client.config_resetstat()
    began, done = time.monotonic(), 0
    while time.monotonic() - began < SECONDS:
        done += _one_job()
    took = time.monotonic() - began
    scripts = server.client.info("commandstats")["cmdstat_evalsha"]
    enqueued = _enqueue_microseconds(server)
    return Pace(done / took, scripts["usec"] / done - enqueued)


def _one_job() -> int:
    """Claims and reports one, and puts another in its place. 0 when none was due."""
    held = connections.run(frontier.claim("bench", "bench"))
    if not isinstance(held, Claimed):
        return 0
    connections.run(frontier.report(held, "bench", Report(Verdict.REFUSED, 0.01, "404"), End(held.version)))
    connections.run(frontier.enqueue(_job(held.host)))
    return 1


_numbers = itertools.count()


def _job(host: str) -> Job:
    url = f"https://{host}/{next(_numbers)}"
    return Job(url, url, Wish("bench", '{"task": "resources.bench", "arguments": []}'))


def _fill(server: RedisServer, jobs: int, over: int | None = None) -> None:
    """Enqueues so many, over as many domains."""
    places = range(jobs)
    for start in range(0, jobs, AT_ONCE):
        calls = [
            next(frontier.enqueue(_job(f"d{n % (over or jobs)}.example.com"))) for n in places[start : start + AT_ONCE]
        ]
        connections.execute_all_patiently("state", calls)


def _enqueue_microseconds(server: RedisServer) -> float:
    """Redis' own time to enqueue one job, as it is now."""
    server.client.config_resetstat()
    for number in range(AT_ONCE):
        connections.run(frontier.enqueue(_job(f"d{number}.example.com")))
    return float(server.client.info("commandstats")["cmdstat_evalsha"]["usec_per_call"])


def _used(server: RedisServer) -> int:
    return int(server.client.info("memory")["used_memory"])


@contextmanager
def _redis() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="tarry-bench-", dir="/tmp") as directory:
        server = RedisServer(Path(directory) / "state.sock", "--appendonly", "yes")
        if not settings.configured:
            settings.configure()
        named = {"DELAY_SECONDS": 0.5, "IN_FLIGHT": 2, "BYTES_PER_SECOND": 0, "LEASE_SECONDS": 15}
        bounds = {"STALL_SECONDS": 3600, "BACKLOG": 1_000_000, "DOMAIN_BACKLOG": 1_000_000}
        for name, value in (named | bounds).items():
            setattr(settings, f"FETCH_{name}", value)
        settings.REDIS_URL = f"unix://{server.socket}"
        settings.OBSERVE = False
        server.start()
        try:
            yield server
        finally:
            server.stop()
