"""The metrics of a fetcher, added up in memory and written every second. OBSERVE=0 switches them off.

For the thread of the event loop. A killed fetcher loses the counts of its last second.
"""

import asyncio
import logging
from collections import defaultdict

from prometheus_client import Counter, Gauge, Histogram

from retry import metrics
from retry.conf import conf
from retry.metrics import MetricTally, labelled_metric

from ..frontier.jobs import FetchLane
from ..timings import FetchRecord

WRITE_EVERY_SECONDS = 1.0

_SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

FETCHES = Counter("tarry_fetches", "Requests to other servers by what came of them", ["kind", "lane", "outcome"])
FETCH_SECONDS = Histogram(
    "tarry_fetch_seconds", "Their durations, redirects included", ["kind"], buckets=_SECONDS_BUCKETS
)
FETCHED_BYTES = Counter("tarry_fetched_bytes", "Bytes of bodies, as they were sent", ["kind"])
IN_FLIGHT = Gauge("tarry_fetches_in_flight", "Jobs that fetchers have in hand", ["lane"], multiprocess_mode="livesum")

TALLY = MetricTally()

_log = logging.getLogger("tarry.fetching")


# Since the last write: the requests, the ended preparations, and the changes of the jobs in hand.
_fetches: list[FetchRecord] = []
_ends: list[tuple[str, str, float]] = []
_in_flight: dict[FetchLane, int] = {"fast": 0, "slow": 0}


def count_fetch(record: FetchRecord) -> None:
    _fetches.append(record)


def count_in_flight(lane: FetchLane, change: int) -> None:
    _in_flight[lane] += change


def count_end(task: str, outcome: str, seconds: float) -> None:
    """Counts an ended preparation."""
    _ends.append((task, outcome, seconds))


async def write_forever() -> None:
    """Writes the counts every second until it is cancelled, and then once more."""
    try:
        while True:
            await asyncio.sleep(WRITE_EVERY_SECONDS)
            _write()
    finally:
        _write()


def _write() -> None:
    try:
        if conf().OBSERVE:
            _add_up()
        TALLY.write()
    except Exception:  # noqa: BLE001 - the edge of a background task: without it no metric would be written again
        _log.exception("metrics were not written")
    finally:
        _fetches.clear()
        _ends.clear()
        _in_flight.update({"fast": 0, "slow": 0})


def _add_up() -> None:
    alike = defaultdict[tuple[str, str, str], list[FetchRecord]](list)
    for record in _fetches:
        alike[record.kind, record.lane, record.outcome].append(record)
    for (kind, lane, outcome), records in alike.items():
        TALLY.add(labelled_metric(FETCHES, kind, lane, outcome), len(records))
        TALLY.add(labelled_metric(FETCHED_BYTES, kind), sum(record.wire_bytes for record in records))
        for record in records:
            TALLY.observe(labelled_metric(FETCH_SECONDS, kind), record.seconds)
    for task, outcome, seconds in _ends:
        metrics.count_preparation(task, outcome, seconds, TALLY)
    for lane, change in _in_flight.items():
        TALLY.add(labelled_metric(IN_FLIGHT, lane), change)
