"""The metrics of a fetcher."""

import asyncio
from datetime import UTC, datetime

import pytest
from prometheus_client import REGISTRY
from pytest_django import Settings

from resources.fetch.timings import FetchRecord
from resources.fetch.worker import counts

pytestmark = pytest.mark.anyio

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_counted() -> None:
    counts._write()


def in_flight() -> float:
    return REGISTRY.get_sample_value("tarry_fetches_in_flight", {"lane": "slow"}) or 0


async def test_a_failure_to_write_does_not_end_the_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def fail_once() -> None:
        written.append("tried")
        if len(written) == 1:
            raise OSError("the disk is full")

    monkeypatch.setattr(counts, "WRITE_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(counts.TALLY, "write", fail_once)
    writing = asyncio.create_task(counts.write_forever())
    async with asyncio.timeout(5):
        while len(written) < 2:
            await asyncio.sleep(0.01)
    writing.cancel()
    await asyncio.wait({writing})


@pytest.mark.parametrize(("is_observed", "expected"), [(True, 2), (False, 0)])
async def test_counts_are_written_at_the_latest_when_the_fetcher_ends(
    is_observed: bool, expected: int, settings: Settings
) -> None:
    settings.OBSERVE = is_observed
    before = in_flight()
    writing = asyncio.create_task(counts.write_forever())
    for change in (1, 1, 1, -1):
        counts.count_in_flight("slow", change)
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait({writing})
    assert in_flight() - before == expected


def sample(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"kind": "hub", **labels}) or 0


async def test_requests_are_counted_by_what_came_of_them() -> None:
    counted = [
        ("tarry_fetches_total", {"lane": "slow", "outcome": "fetched"}, 2),
        ("tarry_fetches_total", {"lane": "slow", "outcome": "dropped"}, 1),
        ("tarry_fetched_bytes_total", {}, 600),
        ("tarry_fetch_seconds_sum", {}, 3.5),
        ("tarry_fetch_seconds_bucket", {"le": "1.0"}, 1),
    ]
    before = [sample(name, **labels) for name, labels, _ in counted]
    writing = asyncio.create_task(counts.write_forever())
    for outcome, seconds, size in (("fetched", 0.5, 100), ("fetched", 1.5, 200), ("dropped", 1.5, 300)):
        counts.count_fetch(FetchRecord(NOON, "", "h", "h", "hub", "slow", None, seconds, size, outcome, status=200))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.wait({writing})
    found = [sample(name, **labels) for name, labels, _ in counted]
    assert [now - then for now, then in zip(found, before, strict=True)] == [number for _, _, number in counted]
