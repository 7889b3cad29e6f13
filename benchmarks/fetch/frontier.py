"""The domain queues on one Redis: jobs claimed and ended as fetchers do, however many domains, and their memory."""

import itertools
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from pathlib import Path
from unittest.mock import patch

from django.conf import settings

from resources.fetch.frontier import queue
from resources.fetch.frontier.jobs import ClaimedJob, FetchJob, FetchLane, RateVerdict, RequestReport, Waiter
from resources.fetch.frontier.politeness import Politeness
from resources.fetch.frontier.queue import EndJob
from retry import claim_state, claims, stores
from retry.conf import conf
from retry.scripts import Reply
from retry.work import Work
from tests.support.redis_servers import RedisServer

from ..figures import Figure, Note

DOMAINS = (10, 1_000, 100_000)
SECONDS = 5
DUE_A_SECOND = 20_000
"""So many requests a second would all domains together allow: there is always one that is due."""
GROWTH = round(log(DOMAINS[-1]) / log(DOMAINS[1]), 2)
"""Logarithmic at worst."""
MOST_CLAIMS = 32
ROOMS: dict[FetchLane, int] = {"fast": 100, "slow": 50}
"""As a fetcher's engine claims when all its places are free."""
LANE = "bench"
OK = RequestReport(RateVerdict.OK, status="200")
"""Without a time, which would make the gap."""

QUEUED_DOMAINS = 10_000
KILOBYTE = 1024
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """Jobs a second through one client, and Redis' own microseconds for each."""

    jobs: float
    microseconds: float


def measure() -> Iterator[Figure | Note]:
    """Each work starts with its job, ends with it, and is followed by another of its domain; Redis' own time counts."""
    with _redis() as server:
        yield _memory(server)
        paces = {}
        for domains in DOMAINS:
            paces[domains] = _pace(server, domains)
            yield Figure(f"jobs claimed and reported, {domains:,} domains", paces[domains].jobs, "/s")
            yield Figure("Redis' own time for each", paces[domains].microseconds, "µs")
    from_few = paces[DOMAINS[-1]].microseconds / paces[DOMAINS[0]].microseconds
    yield Figure(f"the same, {DOMAINS[-1]:,} domains ÷ {DOMAINS[0]:,}", from_few)
    growth = paces[DOMAINS[-1]].microseconds / paces[DOMAINS[1]].microseconds
    yield Figure(f"the same, {DOMAINS[-1]:,} domains ÷ {DOMAINS[1]:,}", growth, at_most=GROWTH)


def _memory(server: RedisServer) -> Figure:
    before = _used(server)
    with patch.object(queue, "configured_politeness", lambda: _politeness(0.5)):
        for hosts in _hosts(QUEUED_DOMAINS, QUEUED_DOMAINS):
            _enqueue(_job(_work(host), 0) for host in hosts)
    each = (_used(server) - before) / QUEUED_DOMAINS / KILOBYTE
    server.client.flushall()
    return Figure(f"memory of a domain with one queued job, {QUEUED_DOMAINS:,} domains", each, "KB")


def _pace(server: RedisServer, domains: int) -> Pace:
    server.client.flushall()
    with patch.object(queue, "configured_politeness", lambda: _politeness(domains / DUE_A_SECOND)):
        stores.run_steps(queue.sign_in_fetcher("bench"))
        for hosts in _hosts(max(domains, 2_000), domains):
            _want(hosts)
        server.client.config_resetstat()
        began, done = time.monotonic(), 0
        while time.monotonic() - began < SECONDS:
            done += _some_jobs()
        took = time.monotonic() - began
        scripts = server.client.info("commandstats")["cmdstat_evalsha"]
        return Pace(done / took, scripts["usec"] / done - _wanted_microseconds(server))


def _politeness(delay: float) -> Politeness:
    """A gap that no success makes shorter, and room for all."""
    return Politeness(delay_seconds=delay, least_delay_seconds=delay, backlog=1_000_000, domain_backlog=1_000_000)


def _some_jobs() -> int:
    """Claims due jobs, ends them with their works, and enqueues another in the place of each. Returns their number."""
    found = stores.run_steps(queue.claim_jobs("bench", "bench", MOST_CLAIMS, ROOMS, claims.start_terms()))
    held = [one for one in found if isinstance(one, ClaimedJob)]
    for job in held:
        [waiter] = job.waiters
        stored = claims.stored_end(waiter.id, waiter.token, 0.01)
        ended, _ = stores.run_steps(queue.report_and_finish_work(job, "bench", OK, EndJob(job.version), stored))
        assert ended
        _want([job.host])
    return len(held)


_numbers = itertools.count()


def _want(hosts: Sequence[str]) -> None:
    """Claims works of these hosts and enqueues their jobs, as main does for clients."""
    works = [_work(host) for host in hosts]
    replies = stores.execute_all_patiently("state", [claims.begin_call(work, refresh=False) for work in works])
    _enqueue(_job(work, _token(reply)) for work, reply in zip(works, replies, strict=True))


def _work(host: str) -> Work:
    url = f"https://{host}/{next(_numbers)}"
    return Work(f"bench:{url}", "bench", LANE, LANE, "resources.bench", (url,))


def _token(reply: Reply) -> int:
    begun = claim_state.read_claim_state(reply)
    assert isinstance(begun, claim_state.ClaimBegun)
    return begun.token


def _job(work: Work, token: int) -> FetchJob:
    url = str(work.arguments[0])
    return FetchJob(url, url, Waiter(work.key, '{"task": "resources.bench", "arguments": []}', token))


def _enqueue(jobs: Iterable[FetchJob]) -> None:
    stores.execute_all_patiently("state", [next(queue.enqueue_job(job)) for job in jobs])


def _hosts(jobs: int, over: int) -> Iterator[list[str]]:
    """A host for each, of so many, in parts."""
    for start in range(0, jobs, AT_ONCE):
        yield [f"d{number % over}.example.com" for number in range(start, min(jobs, start + AT_ONCE))]


def _wanted_microseconds(server: RedisServer) -> float:
    """Redis' own time for one to be wanted, as it is now."""
    server.client.config_resetstat()
    for number in range(AT_ONCE):
        _want([f"d{number}.example.com"])
    return float(server.client.info("commandstats")["cmdstat_evalsha"]["usec"]) / AT_ONCE


def _used(server: RedisServer) -> int:
    return int(server.client.info("memory")["used_memory"])


@contextmanager
def _redis() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="tarry-bench-", dir="/tmp") as directory:
        server = RedisServer(Path(directory) / "state.sock", "--appendonly", "yes")
        if not settings.configured:
            settings.configure()
        settings.RETRY_LANES = {LANE: {"limit": 1_000_000, "workers": 1}}
        conf.cache_clear()
        settings.REDIS_URL = f"unix://{server.socket}"
        settings.OBSERVE, settings.FETCH_EGRESS = False, []
        server.start()
        try:
            yield server
        finally:
            server.stop()
