"""What is measured of fetching: requests by outcome, their time, those in flight. OBSERVE=0 switches it off."""

from prometheus_client import Counter, Gauge, Histogram

from retry.conf import conf
from retry.observing import labelled

from ..keeping.records import Record
from ..queues.jobs import Lane

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

FETCHES = Counter("tarry_fetches", "Requests to other servers by what came of them", ["kind", "lane", "outcome"])
FETCH_SECONDS = Histogram("tarry_fetch_seconds", "Their durations, redirects included", ["kind"], buckets=_BUCKETS)
FETCHED_BYTES = Counter("tarry_fetched_bytes", "Bytes of bodies, as they were sent", ["kind"])
IN_FLIGHT = Gauge("tarry_fetches_in_flight", "Jobs that fetchers have in hand", ["lane"], multiprocess_mode="livesum")


def fetched(record: Record) -> None:
    if conf().OBSERVE:
        labelled(FETCHES, record.kind, record.lane, record.outcome).inc()
        labelled(FETCH_SECONDS, record.kind).observe(record.seconds)
        labelled(FETCHED_BYTES, record.kind).inc(record.wire_bytes)


def in_flight(lane: Lane, change: int) -> None:
    if conf().OBSERVE:
        labelled(IN_FLIGHT, lane).inc(change)
