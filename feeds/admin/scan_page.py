"""The page of a scan: a chart of its fetches in their slots, beside the lower bound."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from heapq import nlargest

from resources import charts
from resources.charts import MAX_SLOT_BARS, Chart, SlotRun
from resources.fetch.models import FetchTiming
from resources.fetch.timings import digest_url

from ..models import Feed, Scan
from .feed_page import outcome_kind

MAX_SCAN_FETCHES = 20_000
"""Fetches of one scan that count: a scan has at most a quarter as many feeds, and few are fetched again."""
HOSTS_PER_QUERY = 500

_FetchRow = tuple[str, str, datetime, float, str]
"""The digest of the address, the host, the start, the seconds, the outcome."""


def load_scan_chart(scan: Scan) -> Chart[SlotRun]:
    """Loads the fetches of a scan, also of one that still runs, and draws them. Raises DatabaseError."""
    rows = FetchTiming.objects.filter(scan=scan.pk).order_by("started_at")
    found = list(rows.values_list("url_digest", "host", "started_at", "seconds", "outcome")[:MAX_SCAN_FETCHES])
    names = _feed_names(nlargest(MAX_SLOT_BARS, found, key=lambda row: row[3]))
    runs = [_scan_run(row, scan.started_at, names) for row in found]
    return charts.draw_slot_chart("fetch", runs, scan.started_at, least_seconds(scan), "fetches")


def least_seconds(scan: Scan) -> float:
    """The lower bound by the real durations; while a scan runs, that by the expected ones."""
    return scan.expected_seconds if scan.bound_seconds is None else scan.bound_seconds


def _scan_run(row: _FetchRow, since: datetime, names: Mapping[str, str]) -> SlotRun:
    """The run of a fetch. The clock of its fetcher's machine may be behind."""
    digest, host, at, seconds, outcome = row
    return SlotRun(names.get(digest, host), max(0.0, (at - since).total_seconds()), seconds, outcome_kind(outcome))


def _feed_names(rows: Sequence[_FetchRow]) -> Mapping[str, str]:
    """The titles of feeds by the digests of their addresses. Feeds that have moved or are gone are left out."""
    wanted, hosts = {row[0] for row in rows}, sorted({row[1] for row in rows})
    ids: dict[int, str] = {}
    for place in range(0, len(hosts), HOSTS_PER_QUERY):
        there = Feed.objects.filter(host__in=hosts[place : place + HOSTS_PER_QUERY]).values_list("pk", "url")
        ids |= {pk: digest for pk, url in there if (digest := digest_url(url)) in wanted}
    return {ids[feed.pk]: feed.shown_title for feed in _load_titles(ids)}


def _load_titles(ids: Collection[int]) -> list[Feed]:
    return list(Feed.objects.filter(pk__in=ids).only("title", "own_title", "url", "host"))
