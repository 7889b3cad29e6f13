"""Records of fetches: their fields, their way into the database in batches, outages, and the removal of old ones."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from django.db import OperationalError
from pytest_django import DjangoAssertNumQueries, Settings

from resources import tasks
from resources.fetch import timings
from resources.fetch.http.messages import Body, BodyDropped, Failure, Fetched, FetchFailed, FetchRequest, NotModified
from resources.fetch.models import FetchDomain, FetchTiming
from resources.fetch.timings import FetchRecord, TimingRecorder, digest_url
from tests.support.fetch_outcomes import NOON, TIMING, head, outcomes, record

URL = "https://A.example.com:8443/x?sig=secret"


def test_a_record_has_all_but_the_address() -> None:
    came = Fetched(head(203), Body(0, "", data=b""), TIMING)
    found = FetchRecord.of(FetchRequest(URL, kind="tile"), came, scope="example.com", lane="slow", egress="192.0.2.7")
    assert found == FetchRecord(
        started_at=NOON,
        url_digest=sha256(URL.encode()).hexdigest(),
        host="a.example.com:8443",
        scope="example.com",
        kind="tile",
        lane="slow",
        head_seconds=0.25,
        seconds=1.5,
        wire_bytes=4000,
        outcome="fetched",
        status=203,
        egress="192.0.2.7",
    )


@pytest.mark.parametrize(("came", "word", "status"), outcomes())
def test_every_outcome_has_its_word(came: NotModified | BodyDropped | FetchFailed, word: str, status: int) -> None:
    found = FetchRecord.of(FetchRequest(URL), came, scope="s", lane="fast")
    assert (found.outcome, found.status) == (word, status)


def test_the_admin_can_filter_by_every_outcome() -> None:
    assert {word for word, _ in FetchTiming.OUTCOMES} == {"fetched"} | {word for _, word, _ in outcomes()}


@pytest.mark.parametrize("url", ["https:///x", "http://[::1", "\ud800", "mailto:x@example.com"])
def test_an_address_that_cannot_be_fetched_is_recorded_without_a_host(url: str) -> None:
    found = FetchRecord.of(FetchRequest(url), FetchFailed(Failure.PERMANENT, "no", TIMING), scope="", lane="fast")
    assert (found.host, found.status, found.url_digest) == ("", None, digest_url(url))


def test_texts_are_as_the_database_takes_them() -> None:
    found = FetchRecord.of(
        FetchRequest(URL), BodyDropped(head(), TIMING), scope="a\0" + "b" * 500, lane="fast", egress="\ud800" * 300
    )
    assert found.scope == "a?" + "b" * 398
    assert found.egress == "?" * 100


class Database:
    """In the place of timings.write_records: notes the batches, and can be away."""

    def __init__(self) -> None:
        self.batches: list[list[FetchRecord]] = []
        self.is_away = False
        self.calls = 0

    def write(self, records: Iterable[FetchRecord], known: object) -> None:
        self.calls += 1
        if self.is_away:
            raise OperationalError("away")
        self.batches.append(list(records))

    @property
    def records(self) -> list[FetchRecord]:
        return [one for batch in self.batches for one in batch]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    database = Database()
    monkeypatch.setattr(timings, "write_records", database.write)
    return database


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


@asynccontextmanager
async def recording(every_seconds: float = 0.001, **given: int) -> AsyncIterator[TimingRecorder]:
    """A recorder that writes until it is cancelled at the end."""
    recorder = TimingRecorder(every_seconds=every_seconds, **given)
    running = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)  # a task that is cancelled before it began does nothing
    yield recorder
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def numbered(count: int) -> list[FetchRecord]:
    return [replace(record(), wire_bytes=number) for number in range(count)]


@pytest.mark.django_db(transaction=True)
def test_records_stand_in_the_table_before_the_end_with_a_row_for_each_domain() -> None:
    FetchDomain.objects.create(scope="b.example.com", note="known before", paused=True)

    async def scenario() -> None:
        async with recording(3600) as recorder:
            for scope in ("a.example.com", "b.example.com", "a.example.com", ""):
                recorder.add(record(scope))

    asyncio.run(scenario())
    assert FetchTiming.objects.count() == 4
    found = FetchTiming.objects.first()
    assert found is not None
    assert (found.started_at, found.seconds, found.head_seconds, found.egress) == (NOON, 0.5, 0.25, "192.0.2.7")
    assert list(FetchDomain.objects.values_list("scope", "note", "paused")) == [
        ("a.example.com", "", False),
        ("b.example.com", "known before", True),
    ]


@pytest.mark.anyio
async def test_records_that_come_together_are_written_together(database: Database) -> None:
    async with recording(0.05) as recorder:
        for one in numbered(30):
            recorder.add(one)
            await asyncio.sleep(0)
        await until(lambda: bool(database.batches))
    assert [len(batch) for batch in database.batches] == [30]


@pytest.mark.anyio
async def test_a_full_batch_does_not_wait_for_the_second_to_pass(database: Database) -> None:
    size = timings.WRITE_BATCH_RECORDS
    async with recording(3600) as recorder:
        for one in numbered(size + 1):
            recorder.add(one)
        await until(lambda: len(database.records) == size + 1)
    assert [len(batch) for batch in database.batches] == [size, 1]


@pytest.mark.anyio
async def test_the_database_is_not_called_while_nothing_is_fetched(database: Database) -> None:
    async with recording():
        await asyncio.sleep(0.02)
    assert database.calls == 0


@pytest.mark.anyio
async def test_an_outage_costs_no_record_and_changes_no_order(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    records = numbered(1200)
    database.is_away = True
    with caplog.at_level(logging.WARNING, "tarry.timings"):
        async with recording() as recorder:
            for one in records:
                recorder.add(one)
            await until(lambda: database.calls > 3)  # without another record it is tried again
            database.is_away = False
            await until(lambda: len(database.records) == len(records))
    assert database.records == records
    assert [one.message for one in caplog.records] == [
        "records of fetches cannot be written",
        "records of fetches are written again",
    ]


@pytest.mark.anyio
async def test_in_a_long_outage_the_oldest_records_are_dropped_and_counted(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    records = numbered(30)
    database.is_away = True
    with caplog.at_level(logging.WARNING, "tarry.timings"):
        async with recording(most_kept=10) as recorder:
            for one in records:
                recorder.add(one)
                await asyncio.sleep(0.001)
            database.is_away = False
            await until(lambda: bool(database.records))
    assert database.records == records[-10:]
    dropping = "records of fetches are dropped: the database does not take them"
    assert [one.message for one in caplog.records].count(dropping) == 1
    assert vars(caplog.records[-1])["dropped"] == 20


@pytest.mark.django_db(transaction=True)
def test_a_record_that_no_database_takes_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with recording() as recorder:
            recorder.add(replace(record(), status=-1))
            await until(lambda: "records of fetches were refused" in caplog.text)
            recorder.add(record())

    asyncio.run(scenario())
    assert FetchTiming.objects.count() == 1


@pytest.mark.django_db
def test_a_domain_without_a_row_has_one_again_within_a_minute(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    known = timings.KnownDomains()
    timings.write_records([record()], known)
    FetchDomain.objects.all().delete()
    with django_assert_num_queries(1):
        timings.write_records([record()], known)
    assert not FetchDomain.objects.exists()
    now[0] += 60
    timings.write_records([record()], known)
    assert FetchDomain.objects.count() == 1


@pytest.mark.django_db
def test_old_timings_are_removed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timings, "PRUNE_SLICE_ROWS", 10)
    timings.write_records([record(at=NOON - timedelta(hours=hours)) for hours in range(48)])
    assert timings.prune_timings(NOON - timedelta(hours=23.5), seconds=0) == 10  # a slice, when there is no time
    assert timings.prune_timings(NOON - timedelta(hours=23.5), seconds=60) == 14
    assert FetchTiming.objects.count() == 24
    assert FetchTiming.objects.order_by("started_at")[0].started_at == NOON - timedelta(hours=23)


@pytest.mark.django_db
def test_timings_live_for_so_many_days(settings: Settings) -> None:
    settings.FETCH_TIMINGS_DAYS = 2
    now = datetime.now(UTC)
    timings.write_records([record(at=now - timedelta(days=days)) for days in (1, 3)])
    tasks.prune_fetch_timings()
    assert [round((now - one.started_at).total_seconds()) for one in FetchTiming.objects.all()] == [86_400]
