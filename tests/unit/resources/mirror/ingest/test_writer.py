"""The writer: batches of many threads, a database that is away or refuses, and rows that others write meanwhile."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Barrier, Event
from types import ModuleType
from typing import Any, TypeVar

import pytest
from django.db import DataError, OperationalError
from pytest_django import Settings

from resources.database import run_then_disconnect
from resources.mirror import lookup
from resources.mirror.errors import WriteError
from resources.mirror.ingest import feeder, url_outcome, writer
from resources.mirror.ingest.url_outcome import FoundContent, NothingFound, SourceUrl, UrlOutcome
from resources.mirror.ingest.writer import OutcomeWriter
from resources.mirror.models import Batch, BatchItem, Blob, DedupeStep, Resource, UrlState
from resources.mirror.storage.takedown import TAKEN_DOWN_FAILURE, take_down_blob
from tests.conftest import RedisServers

from ..conftest import look_up_anew, raising

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
Result = TypeVar("Result")


def digest(number: int) -> str:
    return f"{number:064x}"


def found(url: int, blob: int, **given: Any) -> FoundContent:
    return FoundContent(source(url), digest(blob), datetime.now(UTC), contents=bytes_of(digest(blob)), **given)


def bytes_of(blob: str) -> Blob:
    return Blob(digest=blob, size=4, media_type="text/plain", name=f"mirror/{blob}")


def source(url: int) -> SourceUrl:
    return SourceUrl(digest(1000 + url), f"https://example.org/{url}", "example.org")


def lost(url: int, state: UrlState = UrlState.FAILED) -> NothingFound:
    return NothingFound(source(url), state, NOW, "permanent", "answered 404", 404, 1, step=DedupeStep.FAILED)


def in_four_threads(call: Callable[[int], Result]) -> list[Result]:
    """The results of calls with 0 to 3, all at once. Raises the error of one of them."""
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda number: run_then_disconnect(partial(call, number)), range(4)))


def test_what_comes_meanwhile_is_written_together() -> None:
    writing_one, go = Event(), Event()
    batches: list[int] = []

    def held(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
        batches.append(len(batch))
        writing_one.set()
        go.wait(10)
        return list(batch)

    one_writer = OutcomeWriter(held)
    first = one_writer.hand_in(lost(0))
    assert writing_one.wait(10)
    others = [one_writer.hand_in(lost(number)) for number in range(1, 21)]
    go.set()
    assert [one.result(10) for one in (first, *others)] == [lost(number) for number in range(21)]
    assert batches == [1, 20]
    one_writer.join()


@pytest.mark.usefixtures("mirroring")
def test_a_database_that_comes_back_loses_nothing() -> None:
    failures = [OperationalError("away"), OperationalError("still away")]

    def at_first_away(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
        if failures:
            raise failures.pop()
        return writer.flush_outcomes(batch, now)

    one_writer = OutcomeWriter(at_first_away)
    assert one_writer.hand_in(found(1, 1)).result(10).step is DedupeStep.NEW
    assert Resource.objects.get().blob_digest == digest(1)
    one_writer.join()


def test_a_database_that_stays_away_is_told_to_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.mirror.ingest.writer.PATIENCE_SECONDS", 0.1)
    one_writer = OutcomeWriter(raising(OperationalError("away")))
    with pytest.raises(WriteError):
        one_writer.hand_in(found(1, 1)).result(10)
    one_writer.join()


@pytest.mark.usefixtures("mirroring")
def test_one_that_the_database_refuses_takes_no_other_along() -> None:
    def refusing(batch: Sequence[UrlOutcome], now: datetime) -> list[UrlOutcome]:
        if any(one.source.url.endswith("/2") for one in batch):
            raise DataError("too long")
        return writer.flush_outcomes(batch, now)

    one_writer = OutcomeWriter(refusing)
    ended = [one_writer.hand_in(found(number, number)) for number in (1, 2, 3)]
    assert [isinstance(one.exception(10), WriteError) for one in ended] == [False, True, False]
    assert Resource.objects.count() == 2
    one_writer.join()


@pytest.mark.usefixtures("mirroring")
def test_two_who_store_the_same_at_once_store_it_once() -> None:
    start = Barrier(4)

    def store(number: int) -> list[str]:
        start.wait(10)
        batch: list[UrlOutcome] = [found(url, url % 20) for url in range(number * 10, number * 10 + 40)]
        return [one.step for one in writer.flush_outcomes(batch, NOW)]

    steps = [step for some in in_four_threads(store) for step in some]
    assert Blob.objects.count() == steps.count("new") == 20
    assert Resource.objects.count() == 70
    assert set(Resource.objects.values_list("state", flat=True)) == {"stored"}


@pytest.mark.usefixtures("mirroring")
def test_who_feeds_and_who_writes_the_same_rows_wait_for_each_other_and_not_in_a_circle() -> None:
    numbers = list(range(30))
    writer.flush_outcomes([lost(number, UrlState.WANTED) for number in numbers], NOW)
    digests = [digest(1000 + number) for number in numbers]
    start = Barrier(4)

    def work(place: int) -> None:
        start.wait(10)
        for turn in range(10):
            if place % 2:
                feeder.check_again_at(digests[turn:] + digests[:turn], NOW)
            else:
                writer.flush_outcomes([lost(number, UrlState.WANTED) for number in numbers[::-1]], NOW)

    in_four_threads(work)
    assert Resource.objects.count() == 30


def test_written_twice_it_is_the_same() -> None:
    batch: list[UrlOutcome] = [found(1, 1), found(2, 1), lost(3)]
    first = writer.flush_outcomes(batch, NOW)
    rows = list(Resource.objects.order_by("pk").values())
    again = writer.flush_outcomes(batch, NOW)
    assert [one.step for one in again] == [one.step for one in first] == ["new", "content", "failed"]
    assert list(Resource.objects.order_by("pk").values()) == rows


def test_rows_keep_what_was_reported() -> None:
    one = found(1, 1)
    fields = {"url": "https://example.org/1?x", "host": "example.org", "referer": "https://r/", "wanted_at": NOW}
    Resource.objects.create(url_digest=one.source.url_digest, **fields)
    writer.flush_outcomes([one], NOW)
    row = Resource.objects.get()
    assert (row.url, row.referer, row.wanted_at) == ("https://example.org/1?x", "https://r/", NOW)


def test_a_url_met_on_the_way_keeps_what_it_has_itself() -> None:
    writer.flush_outcomes([found(1, 1)], NOW)
    writer.flush_outcomes([found(2, 2, aliases=(source(1),), moved_to="https://example.org/1")], NOW)
    assert Resource.objects.get(pk=digest(1001)).blob_digest == digest(1)


def test_a_blob_that_was_removed_meanwhile_is_wanted_again() -> None:
    known = FoundContent(source(2), digest(1), NOW, step=DedupeStep.VALIDATORS)
    [written] = writer.flush_outcomes([known], NOW)
    assert isinstance(written, NothingFound)
    assert Resource.objects.get(pk=digest(1002)).state == "wanted"


def test_the_end_of_a_url_names_the_lists_that_wait_for_it(mirroring: RedisServers) -> None:
    waiting = [Batch.objects.create(sender="a", key=f"{number}", created_at=NOW) for number in range(4)]
    items = [(0, 1001, ""), (1, 1001, ""), (1, 1002, ""), (2, 1001, "known"), (3, 1002, "")]
    for place, (batch, number, step) in enumerate(items):
        BatchItem.objects.create(batch=waiting[batch], position=place, url="u", url_digest=digest(number), step=step)
    writer.flush_outcomes([found(1, 1), lost(2, UrlState.WANTED)], NOW)
    names = {lookup.batch_name(batch.pk).encode() for batch in waiting[:2]}
    assert mirroring.state.client.smembers(lookup.UNSETTLED_BATCHES_KEY) == names


def claimed(outcome: UrlOutcome, token: int) -> UrlOutcome:
    return replace(outcome, source=replace(outcome.source, token=token))


LATE: dict[str, UrlOutcome] = {"stored": found(1, 1), "failed": lost(1), "to be tried again": lost(1, UrlState.WANTED)}


@pytest.mark.parametrize("late", LATE)
def test_a_fetcher_that_was_frozen_for_however_long_overwrites_nothing_newer(late: str) -> None:
    newer = claimed(found(1, 2), 7)
    writer.flush_outcomes([newer], NOW)
    [told] = writer.flush_outcomes([claimed(LATE[late], 6)], NOW)
    row = Resource.objects.get()
    assert (row.state, row.blob_digest, row.token) == ("stored", digest(2), 7)
    assert look_up_anew(row.pk)[row.pk].blob_digest == digest(2)
    assert isinstance(told, FoundContent)
    assert told.blob_digest == digest(2)


def test_a_frozen_fetcher_ends_no_url_that_a_later_claim_will_try_again() -> None:
    writer.flush_outcomes([claimed(lost(1, UrlState.WANTED), 7)], NOW)
    writer.flush_outcomes([claimed(found(1, 1), 6)], NOW)
    writer.flush_outcomes([claimed(lost(1), 6)], NOW)
    assert Resource.objects.get().state == "wanted"


@pytest.mark.parametrize("token", [0, 8], ids=["a decision without a fetch", "a later claim"])
def test_what_comes_later_is_written(token: int) -> None:
    writer.flush_outcomes([claimed(found(1, 2), 7)], NOW)
    writer.flush_outcomes([claimed(found(1, 1), token)], NOW)
    row = Resource.objects.get()
    assert (row.blob_digest, row.token) == (digest(1), max(7, token))
    assert look_up_anew(row.pk)[row.pk].blob_digest == digest(1)


def test_a_token_of_a_clock_that_was_ahead_fences_off_nothing() -> None:
    an_hour_ahead = round((datetime.now(UTC) + timedelta(hours=1)).timestamp() * 1_000_000)
    writer.flush_outcomes([claimed(found(1, 2), an_hour_ahead)], NOW)
    writer.flush_outcomes([claimed(found(1, 1), 8)], NOW)
    assert Resource.objects.get().blob_digest == digest(1)


def test_of_two_ends_of_a_url_the_row_decides_which_status_is_known() -> None:
    """The process with the older one writes its row first, and its status last."""
    older, newer = claimed(found(1, 1), 6), claimed(found(1, 2), 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_announce_outcomes", lambda *_: None)
        writer.flush_outcomes([older], NOW)
    writer.flush_outcomes([newer], NOW)
    writer._announce_outcomes([older], NOW)
    assert look_up_anew(digest(1001))[digest(1001)].blob_digest == digest(2)


def test_what_is_written_is_known_at_once_without_asking_the_database(django_assert_num_queries: Any) -> None:
    assert lookup.look_up_urls([digest(1001), digest(1002)]) == {}
    writer.flush_outcomes([found(1, 1), lost(2)], NOW)
    with django_assert_num_queries(0):
        known = lookup.look_up_urls([digest(1001), digest(1002)])
    assert (known[digest(1001)].state, known[digest(1001)].blob_digest) == ("stored", digest(1))
    assert known[digest(1002)] == lookup.UrlStatus(UrlState.FAILED, "", "permanent", "answered 404", 404)


def test_who_has_the_bytes_uploads_them_whoever_had_them(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "is_storage_remote", lambda: True)
    settings.MACHINE = "gone"
    writer.flush_outcomes([found(1, 1), found(2, 2)], NOW)
    Blob.objects.filter(digest=digest(2)).update(uploaded_at=NOW)
    settings.MACHINE = "here"
    again = writer.flush_outcomes([found(3, 1), found(4, 2)], NOW)
    assert dict(Blob.objects.values_list("digest", "holder")) == {digest(1): "here", digest(2): "gone"}
    assert [one.step for one in again] == ["content", "content"]


def test_a_whole_list_is_one_query(django_assert_num_queries: Any) -> None:
    writer.flush_outcomes([found(1, 1)], NOW)
    lookup.forget_statuses([digest(1001)])
    with django_assert_num_queries(1):
        assert list(lookup.look_up_urls([digest(number) for number in range(1000, 11_000)])) == [digest(1001)]


BLOB, URL, ALIAS = "ab" * 32, "cd" * 32, "ef" * 32
SOURCE = SourceUrl(URL, "https://example.org/c", "example.org")


@pytest.mark.parametrize(
    ("module", "step"),
    [
        (writer, "_write_blobs"),
        (writer, "_assign_steps"),
        (url_outcome, "upsert_found"),
        (writer, "_write_validators"),
        (writer, "_announce_outcomes"),
    ],
)
def test_a_file_that_is_taken_down_while_its_urls_are_written_leaves_none_of_them_stored(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
) -> None:
    write = getattr(module, step)

    def taken_down_then(*arguments: Any) -> Any:
        written = write(*arguments)
        take_down_blob(BLOB)
        return written

    monkeypatch.setattr(module, step, taken_down_then)
    alias = SourceUrl(ALIAS, "https://example.org/b", "example.org")
    writer.flush_outcomes([FoundContent(SOURCE, BLOB, NOW, contents=bytes_of(BLOB), aliases=(alias,))], NOW)

    assert Blob.objects.get().taken_down_at is not None
    rows = Resource.objects.values_list("pk", "state", "failure", "due_at")
    assert set(rows) <= {(one, UrlState.FAILED, TAKEN_DOWN_FAILURE, None) for one in (URL, ALIAS)}
    known = look_up_anew(URL, ALIAS)
    assert known[URL].failure == TAKEN_DOWN_FAILURE
    assert {one.state for one in known.values()} == {UrlState.FAILED}


@pytest.mark.parametrize("late", [UrlState.WANTED, UrlState.FAILED], ids=["to be tried again", "for good"])
@pytest.mark.parametrize("at_once", [False, True], ids=["later", "in one batch"])
def test_what_a_redirect_has_stored_meanwhile_is_not_lost(late: UrlState, at_once: bool) -> None:
    alias = SourceUrl(ALIAS, "https://example.org/e", "example.org")
    Resource.objects.create(url_digest=ALIAS, url=alias.url, host=alias.host, wanted_at=NOW, due_at=NOW)
    stored = FoundContent(SOURCE, BLOB, NOW, contents=bytes_of(BLOB), aliases=(alias,))
    lost = NothingFound(alias, late, NOW, "transient", "reset", attempts=1, due_at=NOW, step=DedupeStep.FAILED)
    if at_once:
        *_, told = writer.flush_outcomes([stored, lost], NOW)
    else:
        writer.flush_outcomes([stored], NOW)
        [told] = writer.flush_outcomes([lost], NOW)

    row = Resource.objects.get(pk=ALIAS)
    assert (row.state, row.blob_digest, row.failure, row.due_at) == (UrlState.STORED, BLOB, "", None)
    assert lookup.look_up_urls([ALIAS])[ALIAS].state is UrlState.STORED
    assert isinstance(told, FoundContent)
    assert told.blob_digest == BLOB


TRIED = (UrlState.WANTED, NOW, "transient", "reset")
IN_VAIN = (UrlState.STORED, NOW, "permanent", "404", 404)
DOWN = (UrlState.FAILED, NOW, TAKEN_DOWN_FAILURE, "its content was taken down")
WAS_TAKEN_DOWN = {"state": UrlState.FAILED, "failure": TAKEN_DOWN_FAILURE, "blob_digest": BLOB}


@pytest.mark.parametrize(
    ("row", "outcome", "gave", "expected"),
    [
        pytest.param(
            {"state": UrlState.STORED, "blob_digest": BLOB},
            IN_VAIN,
            ALIAS,
            ("stored", "", BLOB),
            id="a redirect stored it",
        ),
        pytest.param({"blob_digest": BLOB}, IN_VAIN, BLOB, ("failed", "permanent", ""), id="its file is gone"),
        pytest.param({"blob_digest": BLOB}, TRIED, "", ("wanted", "transient", BLOB), id="it is tried again"),
        pytest.param(
            {"blob_digest": BLOB}, DOWN, ALIAS, ("failed", TAKEN_DOWN_FAILURE, ALIAS), id="it gave what is down"
        ),
        pytest.param(WAS_TAKEN_DOWN, TRIED, "", ("failed", TAKEN_DOWN_FAILURE, BLOB), id="it was taken down meanwhile"),
    ],
)
def test_an_outcome_without_content_leaves_what_others_decided_meanwhile(
    row: dict[str, Any], outcome: tuple[Any, ...], gave: str, expected: tuple[str, str, str]
) -> None:
    Resource.objects.create(url_digest=URL, url=SOURCE.url, host=SOURCE.host, wanted_at=NOW, **row)
    due_at = NOW if outcome is TRIED else None
    lost = replace(NothingFound(SOURCE, *outcome), due_at=due_at, blob_digest=gave, step=DedupeStep.FAILED)
    [told] = writer.flush_outcomes([lost], NOW)
    found = Resource.objects.get()
    assert (found.state, found.failure, found.blob_digest) == expected
    assert (found.due_at is not None) == (found.state == "wanted" or found.failure == "permanent")
    assert isinstance(told, FoundContent) == (found.state == "stored")
    assert look_up_anew(URL)[URL].state == found.state
