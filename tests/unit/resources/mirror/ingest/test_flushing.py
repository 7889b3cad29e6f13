"""Flushed rows end right, beside any other writes at the same moment."""

from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from resources.mirror import lookup
from resources.mirror.ingest import url_outcome, writer
from resources.mirror.ingest.url_outcome import FoundContent, NothingFound, SourceUrl, StoredBytes, UrlOutcome
from resources.mirror.models import Blob, DedupeStep, Resource, UrlState
from resources.mirror.storage.takedown import TAKEN_DOWN_FAILURE, take_down_blob

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BLOB, URL, ALIAS = "ab" * 32, "cd" * 32, "ef" * 32
SOURCE = SourceUrl(URL, "https://example.org/c", "example.org")


def write_row(**fields: Any) -> None:
    Resource.objects.create(url_digest=URL, url=SOURCE.url, host=SOURCE.host, wanted_at=NOW, **fields)


def flush_lost(*arguments: Any, **fields: Any) -> UrlOutcome:
    [told] = writer.flush_outcomes([NothingFound(SOURCE, *arguments, **fields)], NOW)
    return told


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
    contents = StoredBytes(BLOB, 4, "text/plain", None, None, "mirror/a")
    source = SourceUrl(URL, "https://example.org/a", "example.org")
    alias = SourceUrl(ALIAS, "https://example.org/b", "example.org")
    writer.flush_outcomes([FoundContent(source, BLOB, NOW, contents=contents, aliases=(alias,))], NOW)

    assert Blob.objects.get().taken_down_at is not None
    rows = Resource.objects.values_list("pk", "state", "failure", "due_at")
    assert set(rows) <= {(one, UrlState.FAILED, TAKEN_DOWN_FAILURE, None) for one in (URL, ALIAS)}
    lookup.forget_statuses_here()
    known = lookup.look_up_urls([URL, ALIAS])
    assert known[URL].failure == TAKEN_DOWN_FAILURE
    assert {one.state for one in known.values()} == {UrlState.FAILED}


@pytest.mark.parametrize("late", [UrlState.WANTED, UrlState.FAILED], ids=["to be tried again", "for good"])
@pytest.mark.parametrize("at_once", [False, True], ids=["later", "in one batch"])
def test_what_a_redirect_has_stored_meanwhile_is_not_lost(late: UrlState, at_once: bool) -> None:
    source, alias = (SourceUrl(key, f"https://example.org/{key[:1]}", "example.org") for key in (URL, ALIAS))
    Resource.objects.create(url_digest=ALIAS, url=alias.url, host=alias.host, wanted_at=NOW, due_at=NOW)
    contents = StoredBytes(BLOB, 4, "text/plain", None, None, "mirror/a")
    stored = FoundContent(source, BLOB, NOW, contents=contents, aliases=(alias,))
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


def test_what_is_fetched_again_in_vain_does_not_bring_back_what_a_redirect_has_replaced() -> None:
    write_row(state=UrlState.STORED, blob_digest=BLOB)
    told = flush_lost(UrlState.STORED, NOW, "permanent", "404", blob_digest=ALIAS)
    assert isinstance(told, FoundContent)
    assert told.blob_digest == BLOB == Resource.objects.get().blob_digest


def test_what_is_fetched_again_in_vain_when_its_file_is_gone_has_failed_and_points_at_nothing() -> None:
    write_row(blob_digest=BLOB)
    told = flush_lost(UrlState.STORED, NOW, "permanent", "404", 404, blob_digest=BLOB)
    row = Resource.objects.get()
    assert (row.state, row.step, row.failure, row.blob_digest) == (UrlState.FAILED, DedupeStep.FAILED, "permanent", "")
    assert isinstance(told, NothingFound)
    assert (told.state, lookup.look_up_urls([URL])[URL].state) == (UrlState.FAILED, UrlState.FAILED)


def test_what_is_fetched_again_and_gives_what_was_taken_down_no_longer_has_what_it_gave_before() -> None:
    write_row(blob_digest=BLOB)
    flush_lost(UrlState.WANTED, NOW, "transient", "reset", attempts=1, due_at=NOW)
    assert Resource.objects.get().blob_digest == BLOB

    flush_lost(UrlState.FAILED, NOW, TAKEN_DOWN_FAILURE, "its content was taken down", blob_digest=ALIAS)
    row = Resource.objects.get()
    assert (row.state, row.failure, row.blob_digest) == (UrlState.FAILED, TAKEN_DOWN_FAILURE, ALIAS)


def test_what_was_taken_down_meanwhile_is_not_tried_again() -> None:
    taken_down = {"state": UrlState.FAILED, "failure": TAKEN_DOWN_FAILURE, "blob_digest": BLOB}
    write_row(**taken_down)
    flush_lost(UrlState.WANTED, NOW, "transient", "reset", attempts=1, due_at=NOW)
    row = Resource.objects.get()
    assert (row.state, row.failure, row.due_at) == (UrlState.FAILED, TAKEN_DOWN_FAILURE, None)
    lookup.forget_statuses_here()
    assert lookup.look_up_urls([URL])[URL].failure == TAKEN_DOWN_FAILURE


def test_nothing_is_lost_of_a_url_whose_row_was_removed() -> None:
    flush_lost(UrlState.FAILED, NOW, "permanent", "404", 404, attempts=1, step=DedupeStep.FAILED)
    row = Resource.objects.get()
    assert (row.state, row.failure, row.status, row.step, row.url) == (
        UrlState.FAILED,
        "permanent",
        404,
        DedupeStep.FAILED,
        SOURCE.url,
    )
