"""The account of mirrored files: it is never too low, whoever is killed, and refuses what has no room."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from resources.disk.account import SHELF_COUNT, DiskAccount, NoRoomError, disk_bytes


@pytest.fixture
def account(tmp_path: Path) -> DiskAccount:
    """One with room for a million bytes."""
    new = DiskAccount(tmp_path / "account")
    new.open_new([0] * SHELF_COUNT)
    new.set_limit(1_000_000, 0, is_full=False)
    return new


def take_all(account: DiskAccount, size: int) -> int:
    """Takes room until none is left; returns how often."""
    for number in range(100_000):
        try:
            account.take_room(size)
        except NoRoomError:
            return number
    raise AssertionError("there is room for ever")


def test_room_is_taken_until_none_is_left(account: DiskAccount) -> None:
    account.add_file(7, 500_000, has_room=False)
    assert take_all(account, 10_000) == (1_000_000 - disk_bytes(500_000)) // 10_000
    with pytest.raises(NoRoomError, match="DISK_MAX_BYTES"):
        account.add_file(7, 10_000, has_room=False)


def test_a_refused_file_is_not_counted(account: DiskAccount) -> None:
    with pytest.raises(NoRoomError):
        account.add_file(0, 1_000_001, has_room=False)
    assert account.read_files() == 0


def test_a_body_that_took_its_room_is_stored_though_none_is_left(account: DiskAccount) -> None:
    take_all(account, 100_000)
    account.add_file(0, 100_000, has_room=True)
    assert account.read_files() == disk_bytes(100_000)


def test_room_stays_taken_until_a_measurement_has_surely_seen_the_file(account: DiskAccount) -> None:
    account.take_room(900_000)
    account.set_limit(1_000_000, 0, is_full=False)  # it may have begun before the file was written
    assert take_all(account, 100_000) == 1
    for _ in range(2):
        account.set_limit(1_000_000, 900_000, is_full=False)
    assert take_all(account, 100_000) == 1


def test_files_are_removed_above_the_high_mark_down_to_the_low_one(account: DiskAccount) -> None:
    account.add_file(0, 880_000, has_room=True)
    assert account.find_surplus() == 0
    account.add_file(1, 30_000, has_room=True)
    assert account.find_surplus() == account.read_files() - 800_000
    assert not account.is_tight()
    account.add_file(2, 50_000, has_room=True)
    assert account.is_tight()


def test_all_files_make_room_for_data_that_take_the_whole_bound(account: DiskAccount) -> None:
    account.add_file(0, 300_000, has_room=True)
    account.set_limit(-5_000_000, 0, is_full=True)
    assert account.is_full()
    assert account.find_surplus() == account.read_files()


def test_a_count_has_what_was_added_meanwhile(account: DiskAccount) -> None:
    account.add_file(3, 100_000, has_room=False)
    before = account.read_added(3)
    account.add_file(3, 8_192, has_room=False)
    account.correct(3, 90_000, before)
    assert account.read_files() == 90_000 + disk_bytes(8_192)
    account.subtract(3, 10**9)
    assert account.read_files() == 0


def test_many_threads_lose_nothing(account: DiskAccount) -> None:
    account.set_limit(10**12, 0, is_full=False)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: account.add_file(number % 16, 4096, has_room=False), range(800)))
    assert account.read_files() == 800 * disk_bytes(4096)


@pytest.fixture(params=[b"", b"short", bytes(8 * 518)])
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> DiskAccount:
    (tmp_path / "account").write_bytes(request.param)
    return DiskAccount(tmp_path / "account")


def test_a_broken_account_is_none(broken: DiskAccount) -> None:
    assert not broken.is_there()
    broken.take_room(10**15)
    broken.add_file(0, 10**15, has_room=False)
    broken.subtract(0, 1)
    broken.correct(0, 1, broken.read_added(0))
    broken.set_limit(1, 0, is_full=True)
    assert (broken.find_surplus(), broken.read_files(), broken.is_tight(), broken.is_full()) == (0, 0, False, False)
    broken.open_new([1] * SHELF_COUNT)
    assert broken.read_files() == SHELF_COUNT


def test_a_process_that_is_stopped_with_the_lock_stops_no_other(
    account: DiskAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.disk.account.LOCK_SECONDS", 0.05)
    account.add_file(0, 1_000, has_room=False)
    with (tmp_path / "account").open("rb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            account.take_room(1)
        with pytest.raises(BlockingIOError):
            account.set_limit(1, 0, is_full=False)
        account.subtract(0, 1_000)
        assert (account.read_files(), account.is_full()) == (disk_bytes(1_000), False)
    account.take_room(1)
