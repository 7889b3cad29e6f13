"""What is written ends right, whatever else is written at the same moment."""

from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from resources.mirroring.knowing import seen
from resources.mirroring.knowing.found import Contents, Found, Lost, Source
from resources.mirroring.knowing.models import Blob, Resource, State, Step
from resources.mirroring.storing.taking_down import FAILURE, take_down
from resources.mirroring.writing import flushing, upserting

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
BLOB, URL, ALIAS = "ab" * 32, "cd" * 32, "ef" * 32


@pytest.mark.parametrize(
    ("module", "step"),
    [
        (flushing, "_write_blobs"),
        (flushing, "_with_steps"),
        (upserting, "upsert_found"),
        (flushing, "_write_validators"),
        (flushing, "_tell"),
    ],
)
def test_a_file_that_is_taken_down_while_its_urls_are_written_leaves_none_of_them_stored(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
) -> None:
    write = getattr(module, step)

    def taken_down_then(*arguments: Any) -> Any:
        written = write(*arguments)
        take_down(BLOB)
        return written

    monkeypatch.setattr(module, step, taken_down_then)
    contents = Contents(BLOB, 4, "text/plain", None, None, "mirror/a")
    source = Source(URL, "https://example.org/a", "example.org")
    alias = Source(ALIAS, "https://example.org/b", "example.org")
    flushing.flush([Found(source, BLOB, NOW, contents=contents, aliases=(alias,))], NOW)

    assert Blob.objects.get().taken_down_at is not None
    rows = Resource.objects.values_list("pk", "state", "failure", "due_at")
    assert set(rows) <= {(one, State.FAILED, FAILURE, None) for one in (URL, ALIAS)}
    seen.forget_all_here()
    known = seen.look_up([URL, ALIAS])
    assert known[URL].failure == FAILURE
    assert {one.state for one in known.values()} == {State.FAILED}


@pytest.mark.parametrize("late", [State.WANTED, State.FAILED], ids=["to be tried again", "for good"])
@pytest.mark.parametrize("at_once", [False, True], ids=["later", "in one batch"])
def test_what_a_redirect_has_stored_meanwhile_is_not_lost(late: State, at_once: bool) -> None:
    source, alias = (Source(key, f"https://example.org/{key[:1]}", "example.org") for key in (URL, ALIAS))
    Resource.objects.create(url_digest=ALIAS, url=alias.url, host=alias.host, wanted_at=NOW, due_at=NOW)
    contents = Contents(BLOB, 4, "text/plain", None, None, "mirror/a")
    stored = Found(source, BLOB, NOW, contents=contents, aliases=(alias,))
    lost = Lost(alias, late, NOW, "transient", "reset", attempts=1, due_at=NOW, step=Step.FAILED)
    if at_once:
        *_, told = flushing.flush([stored, lost], NOW)
    else:
        flushing.flush([stored], NOW)
        [told] = flushing.flush([lost], NOW)

    row = Resource.objects.get(pk=ALIAS)
    assert (row.state, row.blob_digest, row.failure, row.due_at) == (State.STORED, BLOB, "", None)
    assert seen.look_up([ALIAS])[ALIAS].state is State.STORED
    assert isinstance(told, Found)
    assert told.blob_digest == BLOB


def test_what_is_fetched_again_in_vain_does_not_bring_back_what_a_redirect_has_replaced() -> None:
    source = Source(URL, "https://example.org/c", "example.org")
    Resource.objects.create(
        url_digest=URL, url=source.url, host=source.host, wanted_at=NOW, state=State.STORED, blob_digest=BLOB
    )
    [told] = flushing.flush([Lost(source, State.STORED, NOW, "permanent", "404", blob_digest=ALIAS)], NOW)
    assert isinstance(told, Found)
    assert told.blob_digest == BLOB == Resource.objects.get().blob_digest


def test_what_is_fetched_again_in_vain_when_its_file_is_gone_has_failed_and_points_at_nothing() -> None:
    source = Source(URL, "https://example.org/c", "example.org")
    Resource.objects.create(url_digest=URL, url=source.url, host=source.host, wanted_at=NOW, blob_digest=BLOB)
    [told] = flushing.flush([Lost(source, State.STORED, NOW, "permanent", "404", 404, blob_digest=BLOB)], NOW)
    row = Resource.objects.get()
    assert (row.state, row.step, row.failure, row.blob_digest) == (State.FAILED, Step.FAILED, "permanent", "")
    assert isinstance(told, Lost)
    assert (told.state, seen.look_up([URL])[URL].state) == (State.FAILED, State.FAILED)


def test_what_is_fetched_again_and_gives_what_was_taken_down_no_longer_has_what_it_gave_before() -> None:
    source = Source(URL, "https://example.org/c", "example.org")
    Resource.objects.create(url_digest=URL, url=source.url, host=source.host, wanted_at=NOW, blob_digest=BLOB)
    flushing.flush([Lost(source, State.WANTED, NOW, "transient", "reset", attempts=1, due_at=NOW)], NOW)
    assert Resource.objects.get().blob_digest == BLOB

    flushing.flush([Lost(source, State.FAILED, NOW, FAILURE, "its content was taken down", blob_digest=ALIAS)], NOW)
    row = Resource.objects.get()
    assert (row.state, row.failure, row.blob_digest) == (State.FAILED, FAILURE, ALIAS)


def test_what_was_taken_down_meanwhile_is_not_tried_again() -> None:
    source = Source(URL, "https://example.org/c", "example.org")
    taken_down = {"state": State.FAILED, "failure": FAILURE, "blob_digest": BLOB}
    Resource.objects.create(url_digest=URL, url=source.url, host=source.host, wanted_at=NOW, **taken_down)
    flushing.flush([Lost(source, State.WANTED, NOW, "transient", "reset", attempts=1, due_at=NOW)], NOW)
    row = Resource.objects.get()
    assert (row.state, row.failure, row.due_at) == (State.FAILED, FAILURE, None)
    seen.forget_all_here()
    assert seen.look_up([URL])[URL].failure == FAILURE


def test_nothing_is_lost_of_a_url_whose_row_was_removed() -> None:
    source = Source(URL, "https://example.org/c", "example.org")
    flushing.flush([Lost(source, State.FAILED, NOW, "permanent", "404", 404, attempts=1, step=Step.FAILED)], NOW)
    row = Resource.objects.get()
    assert (row.state, row.failure, row.status, row.step, row.url) == (
        State.FAILED,
        "permanent",
        404,
        Step.FAILED,
        source.url,
    )
