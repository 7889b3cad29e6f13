"""Links through which nginx serves files: only files that main would serve so, after any removal or kill."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError
from django.db.models import QuerySet
from django.test import Client

from resources.mirror.conf import RetentionLimits
from resources.mirror.errors import StorageError
from resources.mirror.file_headers import DIRECT_ENDINGS, delivery_headers
from resources.mirror.models import Blob
from resources.mirror.storage import blobs, retention, sweeper, takedown
from resources.tokens import auth
from resources.tokens.models import ApiToken

from ..conftest import LONG_AGO, NOW, Keep

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


def offer(blob: Blob) -> None:
    blobs.offer_link(blob, blobs.local_path(blob.digest))


def linked() -> list[str]:
    """The names of all links."""
    return sorted(path.name for path in Path(default_storage.path("served")).rglob("*") if path.is_file())


@pytest.fixture
def blob(keep: Keep) -> Blob:
    return keep(media_type="image/jpeg")


@pytest.fixture
def link(blob: Blob) -> Path:
    offer(blob)
    return Path(default_storage.path(f"served/{blob.digest[:2]}/{blob.digest}.jpeg"))


def meanwhile(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """It happens after a link was made, and before the row is read once more."""
    exists = QuerySet.exists

    def read(rows: QuerySet[Any]) -> bool:
        monkeypatch.setattr(QuerySet, "exists", exists)
        happens()
        return exists(rows)

    monkeypatch.setattr(QuerySet, "exists", read)


def test_a_link_is_the_file_itself_by_an_ending_for_its_type(blob: Blob, link: Path) -> None:
    assert link.samefile(blobs.local_path(blob.digest))
    offer(blob)  # once more does no harm
    assert linked() == [link.name]


def test_each_ending_stands_for_one_type_and_names_its_downloads() -> None:
    assert len(set(DIRECT_ENDINGS.values())) == len(DIRECT_ENDINGS)
    for media_type, ending in DIRECT_ENDINGS.items():
        assert delivery_headers(media_type)["Content-Disposition"].endswith(f'.{ending}"')


@pytest.mark.parametrize("media_type", ["text/plain; charset=utf-8", "image/svg+xml", "application/x-anything"])
def test_files_of_other_types_have_none(keep: Keep, media_type: str) -> None:
    offer(keep(media_type=media_type))
    assert linked() == []


def test_nothing_in_a_bucket_has_one(bucket_of_any_kind: None, keep: Keep) -> None:
    offer(blob := keep())
    blobs.withdraw_links(blob.digest)
    assert list(blobs.list_shelf_links(blob.digest[:2])) == []


def test_where_there_can_be_no_link_all_stays_as_it_is(blob: Blob, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("a file system without links")

    monkeypatch.setattr(os, "link", fail)
    offer(blob)
    assert linked() == []


def test_what_is_taken_down_has_none(blob: Blob, link: Path) -> None:
    assert takedown.take_down_blob(blob.digest)
    assert linked() == []


def test_taken_down_it_has_none_before_its_urls_are_looked_for(
    blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []

    def look(*_: object) -> bool:
        found.append(linked())
        return True

    monkeypatch.setattr(takedown, "fail_urls_of_blob", look)
    takedown.take_down_blob(blob.digest)
    assert found == [[]]


def test_who_takes_down_what_keeps_its_link_is_told_to_do_it_again(
    blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    def fail(_: str) -> None:
        raise StorageError("away")

    token = auth.issue_token(ApiToken(name="lawyer", may_take_down=True)).text
    with monkeypatch.context() as away:
        away.setattr(blobs, "withdraw_links", fail)
        away.setattr(blobs, "remove_blob", lambda _: None)
        answer = client.delete(f"/api/resources/{blob.digest}", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status_code, "Send this again" in answer.json()["detail"]) == (503, True)
    blob.refresh_from_db()
    assert blob.taken_down_at is not None
    again = client.delete(f"/api/resources/{blob.digest}", headers={"Authorization": f"Bearer {token}"})
    assert (again.status_code, linked()) == (200, [])


def test_whoever_is_killed_once_the_row_says_that_it_is_taken_down_leaves_none(
    blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdraw, calls = blobs.withdraw_links, []

    def killed_at_the_second(digest: str) -> None:
        calls.append(digest)
        if len(calls) == 2:
            raise SystemExit
        withdraw(digest)

    monkeypatch.setattr(blobs, "withdraw_links", killed_at_the_second)
    with pytest.raises(SystemExit):
        takedown.take_down_blob(blob.digest)
    blob.refresh_from_db()
    assert blob.taken_down_at is not None
    assert linked() == []


def test_what_was_taken_down_while_it_was_linked_has_none(blob: Blob, monkeypatch: pytest.MonkeyPatch) -> None:
    def take_down() -> None:
        assert linked() != []
        Blob.objects.filter(digest=blob.digest).update(taken_down_at=NOW)

    meanwhile(monkeypatch, take_down)
    offer(blob)
    assert linked() == []


def test_what_was_removed_or_got_another_type_while_it_was_linked_has_none(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, other = keep(b"a"), keep(b"b")
    meanwhile(monkeypatch, removed.delete)
    offer(Blob.objects.get(digest=removed.digest))
    meanwhile(monkeypatch, lambda: Blob.objects.filter(digest=other.digest).update(media_type="image/gif"))
    offer(other)
    assert linked() == []


def test_where_the_row_cannot_be_read_once_more_there_is_none(blob: Blob, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OperationalError("away")

    meanwhile(monkeypatch, fail)
    with pytest.raises(OperationalError):
        offer(blob)
    assert linked() == []


def test_a_file_that_is_being_removed_cannot_be_linked_any_more(blob: Blob) -> None:
    blobs.remove_local_blob(blob.digest)
    offer(blob)
    assert linked() == []


def test_what_is_pruned_has_none(blob: Blob, link: Path) -> None:
    assert retention.prune_blobs(RetentionLimits(max_bytes=0), NOW)[0] == 1
    assert linked() == []


def test_its_link_goes_even_if_the_file_cannot_be_removed(
    blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError("not now")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(StorageError):
        blobs.remove_local_blob(blob.digest)
    assert linked() == []


def make_false(blob: Blob, how: str) -> None:
    """The leftovers of a killed process beside a true link."""
    row = Blob.objects.filter(digest=blob.digest)
    match how:
        case "taken down":
            row.update(taken_down_at=NOW)
        case "pruned":
            row.delete()
        case "another type":
            row.update(media_type="image/gif")
        case "a type that has none":
            row.update(media_type="text/html")
        case "no file":
            blobs.local_path(blob.digest).unlink()
        case "another file":
            blobs.local_path(blob.digest).unlink()
            blobs.keep_blob(b"some bytes", blob.digest)


@pytest.mark.parametrize(
    "how", ["taken down", "pruned", "another type", "a type that has none", "no file", "another file"]
)
def test_the_sweeper_removes_links_that_are_not_true(blob: Blob, link: Path, how: str) -> None:
    make_false(blob, how)
    sweeper.sweep_shelf(blob.digest[:2], NOW)
    assert linked() == []


def test_the_sweeper_leaves_those_that_are_true_and_nothing_that_is_no_link(blob: Blob, link: Path) -> None:
    (link.parent / "x").touch()
    sweeper.sweep_shelf(blob.digest[:2], LONG_AGO)
    assert linked() == [link.name]


def test_a_file_or_a_link_that_cannot_be_removed_keeps_no_other_link(
    blob: Blob, link: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("it cannot be removed")

    (link.parent / "a broken link").mkdir()
    make_false(blob, "taken down")
    monkeypatch.setattr(blobs, "remove_blob", fail)
    with pytest.raises(StorageError):
        sweeper.sweep_shelf(blob.digest[:2], NOW)
    assert linked() == []
