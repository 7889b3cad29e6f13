"""Mirrored files on a bounded disk: stored while they have room, removed to make room, the longest unasked first."""

import os
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from pytest_django import Settings

from resources import tasks
from resources.disk.account import DiskAccount, disk_bytes
from resources.mirror.errors import StorageError
from resources.mirror.ingest import feeder
from resources.mirror.models import Blob
from resources.mirror.storage import blobs, retention, small_files, sweeper
from tests.support.bounded_disk import bound_disk

from ..conftest import NOW, Keep, raising

ROOM = 100_000
BODY = b"some bytes" * 1000
DIGEST = sha256(BODY).hexdigest()


@pytest.fixture
def account(settings: Settings, tmp_path: Path) -> DiskAccount:
    return bound_disk(settings, tmp_path, ROOM)


def test_a_file_without_room_is_refused_as_a_whole(account: DiskAccount) -> None:
    account.take_room(ROOM - len(BODY))
    with pytest.raises(StorageError, match="no room is left within DISK_MAX_BYTES"):
        blobs.keep_blob(BODY, DIGEST)
    assert not blobs.local_path(DIGEST).exists()
    assert account.read_files() == 0


def test_of_many_files_those_without_room_are_refused_and_those_that_cannot_be_placed_take_none(
    account: DiskAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = {sha256(body).hexdigest(): body for body in (BODY, BODY[1:], BODY[2:])}
    account.take_room(ROOM - 2 * disk_bytes(len(BODY)))
    [(refused, error)] = small_files.keep_bodies(bodies).items()
    assert "no room is left within DISK_MAX_BYTES" in str(error)
    assert not blobs.local_path(refused).exists()
    assert account.read_files() == 2 * disk_bytes(len(BODY))
    monkeypatch.setattr(os, "replace", raising(OSError("no")))
    account.set_limit(ROOM, 0, is_full=False)
    account.set_limit(ROOM, 0, is_full=False)
    assert list(small_files.keep_bodies(bodies)) == [refused]
    assert account.read_files() == 2 * disk_bytes(len(BODY))


def test_a_fetched_body_has_its_room_already(account: DiskAccount, tmp_path: Path) -> None:
    account.take_room(ROOM)
    (tmp_path / "fetch-1").write_bytes(BODY)
    blobs.keep_blob(tmp_path / "fetch-1", DIGEST)
    assert account.read_files() == disk_bytes(len(BODY))


def test_what_is_stored_twice_counts_once_and_nothing_once_it_is_removed(account: DiskAccount) -> None:
    for _ in range(2):
        blobs.keep_blob(BODY, DIGEST)
    assert account.read_files() == disk_bytes(len(BODY))
    blobs.remove_local_blob(DIGEST)
    assert account.read_files() <= 4096  # the folder


def test_a_file_that_cannot_be_placed_gives_its_room_back(
    account: DiskAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blobs, "_place_file", raising(OSError("no")))
    with pytest.raises(StorageError):
        blobs.keep_blob(BODY, DIGEST)
    assert account.read_files() == 0


@pytest.fixture
def rows(keep: Keep) -> list[Blob]:
    """Blobs that were asked for 1 to 5 days ago; the oldest is pinned."""
    made = [keep(bytes([day]) * 10_000, accessed_at=NOW - timedelta(days=day), pinned=day == 5) for day in range(1, 6)]
    for row in made:
        os.utime(blobs.local_path(row.digest), (time.time() - 3600, time.time() - 3600))
    return made


def test_the_longest_unasked_make_room_and_pinned_ones_stay(account: DiskAccount, rows: list[Blob]) -> None:
    before = account.read_files()
    assert retention.free_room(disk_bytes(10_000) + 1, NOW, seconds=5) == (2, 2 * disk_bytes(10_000))
    assert set(Blob.objects.values_list("digest", flat=True)) == {rows[place].digest for place in (0, 1, 4)}
    assert before - account.read_files() == 2 * (disk_bytes(10_000) - 4096)  # their folders stay
    assert retention.free_room(10**9, NOW, seconds=5)[0] == 2
    assert retention.free_room(10**9, NOW, seconds=5) == (0, 0)


def test_a_file_stays_for_a_minute(account: DiskAccount, keep: Keep) -> None:
    keep(accessed_at=NOW - timedelta(seconds=59))
    assert retention.free_room(10**9, NOW, seconds=5) == (0, 0)


@pytest.mark.django_db
def test_the_task_makes_room_only_where_it_lacks(account: DiskAccount, rows: list[Blob]) -> None:
    tasks.make_room()
    assert Blob.objects.count() == len(rows)
    account.set_limit(account.read_files(), 0, is_full=False)
    tasks.make_room()
    assert not account.find_surplus()
    assert 0 < Blob.objects.count() < len(rows)


@pytest.mark.django_db
def test_the_sweeper_counts_each_shelf_again(account: DiskAccount, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs.keep_blob(BODY, DIGEST)
    account.add_file(int(DIGEST[:2], 16), 50_000, has_room=True)  # by a process that was killed before it wrote
    monkeypatch.setattr(sweeper, "shelf_at", lambda _: DIGEST[:2])
    tasks.sweep_blobs()
    assert len(BODY) <= account.read_files() <= len(BODY) + 6 * 4096


@pytest.mark.django_db
def test_reported_urls_wait_while_there_is_hardly_any_room(
    account: DiskAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeder, "_feed_lane", lambda *_: 1)
    assert feeder.feed_fetchers(datetime.now(UTC)) == len(feeder.LANE_QUEUES)
    account.take_room(ROOM * 96 // 100)
    assert feeder.feed_fetchers(datetime.now(UTC)) == 0
