"""The writer: batches of many threads, and a database that is away or refuses."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier, Event
from typing import Any

import pytest
from django.db import DataError, OperationalError, connections
from pytest_django import Settings

from resources.mirror import lookup
from resources.mirror.errors import WriteError
from resources.mirror.ingest import wanted_urls
from resources.mirror.ingest import writer as ingest_writer
from resources.mirror.ingest.url_outcome import (
    FoundContent,
    NothingFound,
    SourceUrl,
    StoredBytes,
    UrlOutcome,
    VouchedContent,
)
from resources.mirror.ingest.writer import OutcomeWriter
from resources.mirror.models import Blob, DedupeStep, Resource, UrlState
from tests.conftest import RedisServers

pytestmark = pytest.mark.usefixtures("mirroring")

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def digest(number: int) -> str:
    return f"{number:064x}"


def found(url: int, blob: int, **given: Any) -> FoundContent:
    contents = StoredBytes(digest(blob), 4, "text/plain", None, None, f"mirror/{digest(blob)}")
    source = SourceUrl(digest(1000 + url), f"https://example.org/{url}", "example.org")
    return FoundContent(source, digest(blob), datetime.now(UTC), contents=contents, **given)


def lost(url: int, state: UrlState = UrlState.FAILED) -> NothingFound:
    source = SourceUrl(digest(1000 + url), f"https://example.org/{url}", "example.org")
    return NothingFound(source, state, NOW, "permanent", "answered 404", 404, 1, step=DedupeStep.FAILED)


def test_what_comes_meanwhile_is_written_together() -> None:
    writing_one, go = Event(), Event()
    batches: list[int] = []

    def held(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
        batches.append(len(batch))
        writing_one.set()
        go.wait(10)
        return list(batch)

    writer = OutcomeWriter(held)
    with ThreadPoolExecutor(21) as threads:
        first = threads.submit(writer.write, lost(0))
        assert writing_one.wait(10)
        others = [threads.submit(writer.write, lost(number)) for number in range(1, 21)]
        while writer.waiting < 20:
            pass
        go.set()
        assert [one.result(10) for one in (first, *others)] == [lost(number) for number in range(21)]
    assert batches == [1, 20]
    writer.join()


def test_a_database_that_comes_back_loses_nothing() -> None:
    failures = [OperationalError("away"), OperationalError("still away")]

    def at_first_away(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
        if failures:
            raise failures.pop()
        return ingest_writer.flush_outcomes(batch, now)

    writer = OutcomeWriter(at_first_away)
    written = writer.write(found(1, 1))
    assert isinstance(written, FoundContent)
    assert written.step is DedupeStep.NEW
    assert Resource.objects.get().blob_digest == digest(1)
    writer.join()


def test_a_database_that_stays_away_is_told_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.mirror.ingest.writer.PATIENCE_SECONDS", 0.1)

    def away(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
        raise OperationalError("away")

    writer = OutcomeWriter(away)
    with pytest.raises(WriteError):
        writer.write(found(1, 1))
    writer.join()


def test_one_that_the_database_refuses_takes_no_other_along() -> None:
    def refusing(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
        if any(one.source.url.endswith("/2") for one in batch):
            raise DataError("too long")
        return ingest_writer.flush_outcomes(batch, now)

    writer, start = OutcomeWriter(refusing), Barrier(3)

    def write(number: int) -> object:
        start.wait(10)
        try:
            return writer.write(found(number, number))
        except WriteError as error:
            return error

    with ThreadPoolExecutor(3) as threads:
        ended = list(threads.map(write, (1, 2, 3)))
    assert [isinstance(one, WriteError) for one in ended] == [False, True, False]
    assert Resource.objects.count() == 2
    writer.join()


def test_two_who_store_the_same_at_once_store_it_once() -> None:
    start = Barrier(4)

    def store(number: int) -> list[str]:
        try:
            start.wait(10)
            batch: list[UrlOutcome] = [found(url, url % 20) for url in range(number * 10, number * 10 + 40)]
            return [one.step for one in ingest_writer.flush_outcomes(batch, NOW)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        steps = [step for some in threads.map(store, range(4)) for step in some]
    assert Blob.objects.count() == steps.count("new") == 20
    assert Resource.objects.count() == 70
    assert set(Resource.objects.values_list("state", flat=True)) == {"stored"}


def test_who_feeds_and_who_writes_the_same_rows_wait_for_each_other_and_not_in_a_circle() -> None:
    numbers = list(range(60))
    ingest_writer.flush_outcomes([lost(number, UrlState.WANTED) for number in numbers], NOW)
    digests = [digest(1000 + number) for number in numbers]
    start = Barrier(4)

    def work(place: int) -> None:
        try:
            start.wait(10)
            for turn in range(10):
                if place % 2:
                    wanted_urls.check_again_at(digests[turn:] + digests[:turn], NOW)
                else:
                    ingest_writer.flush_outcomes([lost(number, UrlState.WANTED) for number in numbers[::-1]], NOW)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))  # raises the error of one of them
    assert Resource.objects.count() == 60


def test_written_twice_it_is_the_same() -> None:
    batch: list[UrlOutcome] = [found(1, 1), found(2, 1), lost(3)]
    first = ingest_writer.flush_outcomes(batch, NOW)
    rows = list(Resource.objects.order_by("pk").values())
    assert (
        [one.step for one in ingest_writer.flush_outcomes(batch, NOW)]
        == [one.step for one in first]
        == ["new", "content", "failed"]
    )
    assert list(Resource.objects.order_by("pk").values()) == rows


def test_rows_keep_what_was_reported() -> None:
    one = found(1, 1)
    Resource.objects.create(
        url_digest=one.source.url_digest,
        url="https://example.org/1?x",
        host="example.org",
        referer="https://r/",
        wanted_at=NOW,
    )
    ingest_writer.flush_outcomes([one], NOW)
    row = Resource.objects.get()
    assert (row.url, row.referer, row.wanted_at) == ("https://example.org/1?x", "https://r/", NOW)


def test_a_url_met_on_the_way_keeps_what_it_has_itself() -> None:
    ingest_writer.flush_outcomes([found(1, 1)], NOW)
    other = SourceUrl(digest(1001), "https://example.org/1", "example.org")
    ingest_writer.flush_outcomes([found(2, 2, aliases=(other,), moved_to="https://example.org/1")], NOW)
    assert Resource.objects.get(pk=digest(1001)).blob_digest == digest(1)


def test_a_blob_that_was_removed_meanwhile_is_wanted_again() -> None:
    [written] = ingest_writer.flush_outcomes(
        [found(1, 1, step=DedupeStep.VALIDATORS, vouched=VouchedContent("example.org", ("k",)))], NOW
    )
    assert isinstance(written, FoundContent)
    Blob.objects.all().delete()
    known = FoundContent(
        SourceUrl(digest(1002), "https://example.org/2", "example.org"), digest(1), NOW, step=DedupeStep.VALIDATORS
    )
    [written] = ingest_writer.flush_outcomes([known], NOW)
    assert isinstance(written, NothingFound)
    assert Resource.objects.get(pk=digest(1002)).state == "wanted"


def test_the_end_of_a_url_is_told_to_whoever_left_a_name(mirroring: RedisServers) -> None:
    lookup.leave_continuation([digest(1001), digest(1002), digest(1003)], "batch:1")
    lookup.leave_continuation([digest(1001)], "batch:2")
    ingest_writer.flush_outcomes([found(1, 1), lost(2, UrlState.WANTED)], NOW)
    client = mirroring.state.client
    assert client.smembers(lookup.RESUMED_NAMES_KEY) == {b"batch:1", b"batch:2"}
    assert 0 < client.ttl(f"mirror:after:{digest(1003)}") <= lookup.CONTINUATION_SECONDS
    assert sorted(client.scan_iter("mirror:after:*")) == [f"mirror:after:{digest(n)}".encode() for n in (1002, 1003)]


def test_what_is_written_is_known_at_once_without_asking_the_database(django_assert_num_queries: Any) -> None:
    assert lookup.look_up_urls([digest(1001), digest(1002)]) == {}
    ingest_writer.flush_outcomes([found(1, 1), lost(2)], NOW)
    with django_assert_num_queries(0):
        known = lookup.look_up_urls([digest(1001), digest(1002)])
    assert (known[digest(1001)].state, known[digest(1001)].blob_digest) == ("stored", digest(1))
    assert known[digest(1002)] == lookup.UrlStatus(UrlState.FAILED, "", "permanent", "answered 404", 404)


def test_who_has_the_bytes_uploads_them_whoever_had_them_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_writer, "is_storage_remote", lambda: True)
    settings.MACHINE = "gone"
    ingest_writer.flush_outcomes([found(1, 1), found(2, 2)], NOW)
    Blob.objects.filter(digest=digest(2)).update(uploaded_at=NOW)
    settings.MACHINE = "here"
    again = ingest_writer.flush_outcomes([found(3, 1), found(4, 2)], NOW)
    assert dict(Blob.objects.values_list("digest", "holder")) == {digest(1): "here", digest(2): "gone"}
    assert [one.step for one in again] == ["content", "content"]


def test_a_whole_list_is_one_query(django_assert_num_queries: Any) -> None:
    ingest_writer.flush_outcomes([found(1, 1)], NOW)
    lookup.forget_statuses([digest(1001)])
    with django_assert_num_queries(1):
        assert list(lookup.look_up_urls([digest(number) for number in range(1000, 11_000)])) == [digest(1001)]
