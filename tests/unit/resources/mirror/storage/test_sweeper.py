"""Bytes without rows go, and rows without bytes have their URLs fetched again, with care."""

import os
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from resources import database
from resources.mirror import lookup
from resources.mirror.models import Blob, Resource, UrlState
from resources.mirror.storage import blobs, retention, sweeper
from resources.mirror.storage.takedown import TAKEN_DOWN_FAILURE, take_down_blob

from ..conftest import NOW, URL, Give, Keep, look_up_anew

HOUR = timedelta(hours=1)
BODY = b"orphan"
DIGEST = sha256(BODY).hexdigest()

pytestmark = pytest.mark.django_db


def put(body: bytes = BODY, *, age: timedelta = 2 * HOUR) -> Path:
    """Bytes without a row."""
    digest = sha256(body).hexdigest()
    blobs.keep_blob(body, digest)
    return aged(blobs.local_path(digest), age)


def aged(path: Path, age: timedelta) -> Path:
    moment = (NOW - age).timestamp()
    os.utime(path, (moment, moment))
    return path


def sweep(digest: str = DIGEST) -> None:
    sweeper.sweep_shelf(digest[:2], NOW)


def test_bytes_without_a_row_are_removed_after_an_hour(keep: Keep) -> None:
    old, young = put(age=HOUR + timedelta(seconds=1)), put(b"young", age=HOUR / 2)
    with_a_row = aged(blobs.local_path(keep(b"of a row").digest), 9 * HOUR)
    for path in (old, young, with_a_row):
        sweep(path.name)
    assert [path.exists() for path in (old, young, with_a_row)] == [False, True, True]


def test_bytes_that_come_again_after_they_were_taken_down_are_removed_at_once(keep: Keep) -> None:
    take_down_blob(keep(BODY).digest)
    path = put(age=timedelta())
    sweep()
    assert not path.exists()


def test_half_written_files_are_removed(keep: Keep) -> None:
    folder = blobs.local_path(keep(BODY).digest).parent
    left, new = folder / f"{blobs.NEW_PREFIX}x", folder / f"{blobs.NEW_PREFIX}y"
    for path, age in ((left, 2 * HOUR), (new, timedelta())):
        path.write_bytes(b"half")
        aged(path, age)
    sweep()
    assert not left.exists()
    assert new.exists()


def test_a_file_that_was_put_aside_by_a_process_that_was_killed_is_put_back_if_it_has_a_row(keep: Keep) -> None:
    path = aged(blobs.local_path(keep(BODY).digest), 2 * HOUR)
    path.rename(path.with_name(f"{path.name}.0123{blobs.ASIDE_SUFFIX}"))
    sweep()
    assert path.read_bytes() == BODY
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_urls_whose_bytes_are_gone_are_fetched_again_or_keep_their_turn(keep: Keep, give: Give) -> None:
    blob = keep(BODY)
    turn = {"state": UrlState.WANTED, "due_at": NOW + HOUR, "attempts": 2}
    rows = [give(blob, attempts=2), give(blob, URL + "b", **turn)]
    blobs.local_path(blob.digest).unlink()
    sweep()
    for row in rows:
        row.refresh_from_db()
    found = [(row.state, row.blob_digest, row.due_at, row.attempts) for row in rows]
    assert found == [(UrlState.WANTED, "", NOW, 0), (UrlState.WANTED, "", NOW + HOUR, 2)]
    assert not Blob.objects.exists()


def test_rows_that_are_new_or_taken_down_are_left_alone(keep: Keep) -> None:
    for fields in ({"stored_at": NOW}, {"taken_down_at": NOW}):
        blobs.local_path(keep(BODY, **fields).digest).unlink()
        sweep()
        assert Blob.objects.filter(digest=DIGEST).delete()[0] == 1


def test_when_much_is_gone_nothing_is_done_about_it(
    keep: Keep, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = [keep(bytes([number])) for number in range(8)]
    monkeypatch.setattr(blobs, "local_path", lambda digest: Path("/nowhere") / digest)  # the disk is not mounted
    Blob.objects.filter(digest=made[0].digest).update(digest=made[1].digest[:2] + made[0].digest[2:])
    shelf = made[1].digest[:2]
    monkeypatch.setattr(sweeper, "MAX_LOST", 1)
    monkeypatch.setattr(sweeper, "_local_files", lambda *_: iter(()))
    sweeper.sweep_shelf(shelf, NOW)
    assert Blob.objects.count() == 8
    assert "not there" in caplog.text


def test_urls_do_not_keep_what_was_taken_down_by_a_process_that_was_killed_or_is_gone(keep: Keep, give: Give) -> None:
    blob = keep(BODY)
    rows = [
        give(blob),
        give(blob, URL + "a", state=UrlState.WANTED),
        give(Blob(digest="ab" * 32), URL + "b", state=UrlState.WANTED),
    ]
    Blob.objects.update(taken_down_at=NOW)
    for row in rows:
        assert lookup.look_up_urls([row.url_digest])[row.url_digest].state == row.state
        sweep(row.url_digest)
        row.refresh_from_db()
        assert look_up_anew(row.url_digest)[row.url_digest].failure == row.failure
    assert [(row.state, row.failure, row.blob_digest) for row in rows] == [
        (UrlState.FAILED, TAKEN_DOWN_FAILURE, DIGEST),
        (UrlState.FAILED, TAKEN_DOWN_FAILURE, DIGEST),
        (UrlState.WANTED, "", ""),
    ]


def test_urls_without_blobs_are_refetched(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 3)
    stored = {"state": UrlState.STORED, "blob_digest": "ab" * 32, "wanted_at": NOW, "fetched_at": NOW - 2 * HOUR}
    Resource.objects.bulk_create([Resource(url_digest=f"{number:064}", **stored) for number in range(10)])
    sweep("00")
    assert Resource.objects.filter(state=UrlState.WANTED).count() == 10
    assert [getattr(record, "urls", None) for record in caplog.records] == [10]


def test_what_is_stored_again_while_it_is_lost_stays(keep: Keep, give: Give, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = keep()
    give(blob)
    forget = retention.forget_validators

    def stored_meanwhile(digests: list[str]) -> None:
        Blob.objects.update(accessed_at=NOW + timedelta(seconds=1))
        give(blob, "http://origin.example/b")
        forget(digests)

    monkeypatch.setattr(retention, "forget_validators", stored_meanwhile)
    retention.lose_blobs([blob.digest], NOW)
    assert Blob.objects.get() == blob


def test_a_content_of_many_urls_is_lost_in_portions(keep: Keep, give: Give, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "ROWS_PER_STATEMENT", 3)
    blob = keep()
    for number in range(10):
        give(blob, f"{URL}{number}")
    counts: list[int] = []

    def counted(execute: Any, sql: str, params: Any, *rest: Any) -> Any:
        counts.append(len(params or ()))
        return execute(sql, params, *rest)

    with connection.execute_wrapper(counted):
        assert retention.lose_blobs([blob.digest], NOW) == 10
    assert max(counts) <= 3 + 6
    assert Resource.objects.filter(state=UrlState.WANTED).count() == 10


def test_each_shelf_has_its_minute() -> None:
    shelves = {sweeper.shelf_at(NOW + timedelta(minutes=minute)) for minute in range(sweeper.SHELF_COUNT)}
    assert len(shelves) == sweeper.SHELF_COUNT


def test_held_files_go_when_they_were_uploaded_a_while_ago(keep: Keep, bucket_of_any_kind: None) -> None:
    uploaded = {
        "gone": keep(b"a", uploaded_at=NOW - HOUR),
        "just now": keep(b"b", uploaded_at=NOW),
        "not yet": keep(b"c"),
        "taken down": keep(b"d", taken_down_at=NOW),
    }
    orphan = put()
    sweeper.sweep_held_blobs(NOW)
    there = {name for name, blob in uploaded.items() if blobs.local_path(blob.digest).exists()}
    assert there == {"just now", "not yet"}
    assert not orphan.exists()
