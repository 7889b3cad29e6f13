"""Records of fetches: written in batches, kept while the database is away, removed when they are old."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError

from resources.fetch import timings
from resources.fetch.models import FetchDomain, FetchTiming
from resources.fetch.timings import FetchRecord, TimingRecorder
from tests.support.fetch_outcomes import NOON, record

pytestmark = pytest.mark.django_db(transaction=True)


class Database:
    """In the place of timings.write: notes the batches, and can be away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: list[list[FetchRecord]] = []
        self.is_away = False
        self.asked = 0
        monkeypatch.setattr(timings, "write_records", self.write)

    def write(self, records: Iterable[FetchRecord]) -> None:
        self.asked += 1
        if self.is_away:
            raise OperationalError("away")
        self.batches.append(list(records))

    @property
    def records(self) -> list[FetchRecord]:
        return [one for batch in self.batches for one in batch]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    return Database(monkeypatch)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


async def ended(running: "asyncio.Task[None]") -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def numbered(count: int) -> list[FetchRecord]:
    return [replace(record(), wire_bytes=number) for number in range(count)]


def test_records_stand_in_the_table_with_a_row_for_each_domain() -> None:
    FetchDomain.objects.create(scope="b.example.com", note="known before", paused=True)

    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=0.001)
        running = asyncio.create_task(recorder.run())
        for scope in ("a.example.com", "b.example.com", "a.example.com", ""):
            recorder.add(record(scope))
        await asyncio.sleep(0)  # a task that is cancelled before it began does nothing
        await ended(running)

    asyncio.run(scenario())
    assert FetchTiming.objects.count() == 4
    found = FetchTiming.objects.first()
    assert found is not None
    assert (found.started_at, found.seconds, found.head_seconds, found.egress) == (NOON, 0.5, 0.25, "192.0.2.7")
    assert dict(FetchDomain.objects.values_list("scope", "note")) == {
        "a.example.com": "",
        "b.example.com": "known before",
    }
    assert FetchDomain.objects.get(scope="b.example.com").paused


def test_records_that_come_together_are_written_together(database: Database) -> None:
    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=0.05)
        running = asyncio.create_task(recorder.run())
        for one in numbered(30):
            recorder.add(one)
            await asyncio.sleep(0)
        await until(lambda: bool(database.batches))
        await ended(running)

    asyncio.run(scenario())
    assert [len(batch) for batch in database.batches] == [30]


def test_a_full_batch_does_not_wait_for_the_second_to_pass(database: Database) -> None:
    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=3600)
        running = asyncio.create_task(recorder.run())
        for one in numbered(timings.WRITE_BATCH_RECORDS + 1):
            recorder.add(one)
        await until(lambda: len(database.records) == timings.WRITE_BATCH_RECORDS + 1)
        await ended(running)

    asyncio.run(scenario())
    assert [len(batch) for batch in database.batches] == [timings.WRITE_BATCH_RECORDS, 1]


def test_nothing_is_asked_of_the_database_while_nothing_is_fetched(database: Database) -> None:
    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=0.001)
        running = asyncio.create_task(recorder.run())
        await asyncio.sleep(0.02)
        await ended(running)

    asyncio.run(scenario())
    assert database.asked == 0


def test_what_comes_last_is_written_before_the_end(database: Database) -> None:
    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=3600)
        running = asyncio.create_task(recorder.run())
        await asyncio.sleep(0)
        recorder.add(record())
        await ended(running)

    asyncio.run(scenario())
    assert len(database.records) == 1


def test_an_outage_costs_nothing_and_changes_no_order(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    records = numbered(1200)

    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=0.001)
        database.is_away = True
        running = asyncio.create_task(recorder.run())
        for one in records:
            recorder.add(one)
        await until(lambda: database.asked > 3)  # without another record it is tried again
        database.is_away = False
        await until(lambda: len(database.records) == len(records))
        await ended(running)

    with caplog.at_level(logging.WARNING, "tarry.timings"):
        asyncio.run(scenario())
    assert database.records == records
    assert [one.message for one in caplog.records] == [
        "records of fetches cannot be written",
        "records of fetches are written again",
    ]


def test_in_a_long_outage_the_oldest_are_dropped_and_counted(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    records = numbered(30)

    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=0.001, most_kept=10)
        database.is_away = True
        running = asyncio.create_task(recorder.run())
        for one in records:
            recorder.add(one)
            await asyncio.sleep(0.001)
        database.is_away = False
        await until(lambda: bool(database.records))
        await ended(running)

    with caplog.at_level(logging.WARNING, "tarry.timings"):
        asyncio.run(scenario())
    assert database.records == records[-10:]
    assert [one.message for one in caplog.records].count(
        "records of fetches are dropped: the database does not take them"
    ) == 1
    assert vars(caplog.records[-1])["dropped"] == 20


def test_what_no_database_would_take_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        recorder = TimingRecorder(every_seconds=0.001)
        running = asyncio.create_task(recorder.run())
        recorder.add(replace(record(), status=-1))
        await until(lambda: "records of fetches were refused" in caplog.text)
        recorder.add(record())
        await ended(running)

    asyncio.run(scenario())
    assert FetchTiming.objects.count() == 1


def test_old_timings_are_removed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timings, "PRUNE_SLICE_ROWS", 10)
    timings.write_records([record(at=NOON - timedelta(hours=hours)) for hours in range(48)])
    assert timings.prune_timings(NOON - timedelta(hours=23.5), seconds=0) == 10  # a slice, when there is no time
    assert timings.prune_timings(NOON - timedelta(hours=23.5), seconds=60) == 14
    assert timings.prune_timings(NOON - timedelta(hours=23.5), seconds=60) == 0
    assert FetchTiming.objects.count() == 24
    assert FetchTiming.objects.order_by("started_at")[0].started_at == NOON - timedelta(hours=23)
