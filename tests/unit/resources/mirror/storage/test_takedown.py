"""A file that was taken down is served no more, not fetched again, and not stored again."""

from typing import Any

import pytest
from django.db.models import QuerySet

from resources import database
from resources.mirror import lookup
from resources.mirror.errors import StorageError
from resources.mirror.models import Blob, Resource, UrlState, Validator
from resources.mirror.storage import blobs, takedown
from resources.mirror.storage.takedown import find_taken_down, take_down_blob
from retry import lanes
from tests.conftest import RedisServers

from ..conftest import NOW, Give, Keep, look_up_anew, raising, vouch_for

pytestmark = pytest.mark.django_db

Sent = list[tuple[str, list[str]]]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """The tasks given to workers."""
    tasks: Sent = []
    monkeypatch.setattr(lanes, "send_task", lambda name, arguments, _: tasks.append((name, arguments)))
    return tasks


def test_its_row_says_so_its_urls_have_failed_and_its_bytes_are_gone(keep: Keep, give: Give, sent: Sent) -> None:
    blob = keep()
    row = give(blob)
    Validator.objects.create(key="k", host="h", blob_digest=blob.digest, seen_at=NOW)
    assert lookup.look_up_urls([row.pk])[row.pk].state is UrlState.STORED
    assert take_down_blob(blob.digest)
    blob.refresh_from_db()
    row.refresh_from_db()
    assert blob.taken_down_at is not None
    assert (row.state, row.failure, row.due_at) == (UrlState.FAILED, "taken down", None)
    assert not blobs.local_path(blob.digest).exists()
    assert not Validator.objects.exists()
    assert find_taken_down([blob.digest, "ab" * 32]) == {blob.digest}
    known = look_up_anew(row.pk)[row.pk]
    assert (known.state, known.blob_digest, known.failure) == (UrlState.FAILED, blob.digest, "taken down")
    assert sent == [("resources.forget_thumbnails", [blob.digest])]
    blobs.keep_blob(b"some bytes", blob.digest)  # once more removes what has come again
    assert take_down_blob(blob.digest)
    assert not blobs.local_path(blob.digest).exists()


def test_a_url_that_has_another_content_by_now_stands_as_it_did(keep: Keep, give: Give) -> None:
    blob, other = keep(b"a"), keep(b"b")
    row = give(other)
    takedown.fail_urls(blob.digest, [row.pk])
    known = look_up_anew(row.pk)[row.pk]
    assert (known.state, known.blob_digest) == (UrlState.STORED, other.digest)


def test_what_there_is_not_cannot_be_taken_down() -> None:
    assert not take_down_blob("ab" * 32)
    assert not Blob.objects.exists()


def test_a_storage_that_is_away_holds_nothing_up(
    keep: Keep, bucket_of_any_kind: None, monkeypatch: pytest.MonkeyPatch, redis_servers: RedisServers
) -> None:
    monkeypatch.setattr(blobs, "delete_object", raising(StorageError("away")))
    blob = keep(uploaded_at=NOW)
    assert take_down_blob(blob.digest)
    assert find_taken_down([blob.digest])


@pytest.mark.parametrize("named_by", [Resource, Validator])
def test_of_very_many_rows_a_worker_does_the_rest(
    keep: Keep, give: Give, sent: Sent, monkeypatch: pytest.MonkeyPatch, *, named_by: type[Resource | Validator]
) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 2)
    monkeypatch.setattr(takedown, "IMMEDIATE_SECONDS", 0)
    blob = keep()
    left: QuerySet[Any] = Validator.objects.all()
    if named_by is Validator:
        vouch_for(blob, 5)
    else:
        left = Resource.objects.exclude(failure=takedown.TAKEN_DOWN_FAILURE)
        for number in range(5):
            give(blob, f"http://origin.example/{number}.png")
    take_down_blob(blob.digest)
    assert (left.count(), sent.pop(0)) == (3, (takedown.CONTINUE_TAKEDOWN_TASK, [blob.digest]))
    takedown.continue_takedown(blob.digest, 0)
    assert (left.count(), sent.pop()) == (1, (takedown.CONTINUE_TAKEDOWN_TASK, [blob.digest]))
    sent.clear()
    takedown.continue_takedown(blob.digest, 0)
    assert (left.count(), sent) == (0, [])
