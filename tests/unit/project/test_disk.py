"""The bound of the disk at a start: shares, the account of files, trimmed logs, and the operator's warning."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_django import Settings

from project import disk, processes, run
from project.environment import storage_from
from project.paths import DataDirectory, RuntimeDirectory
from project.processes import ProcessPlan
from resources.disk.account import SHELF_COUNT, DiskAccount
from resources.disk.meter import DiskPlaces
from resources.disk.shares import LEAST_BYTES, DiskData, divide_disk

SQLITE = "django.db.backends.sqlite3"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    made = DataDirectory(tmp_path / "data")
    for folder in (made.root, made.logs, made.hot):
        folder.mkdir()
    return made


@pytest.fixture
def plan(data: DataDirectory, tmp_path: Path) -> ProcessPlan:
    return ProcessPlan("python", "redis-server", "nginx", data, RuntimeDirectory(tmp_path / "run"))


@pytest.fixture
def places(plan: ProcessPlan) -> DiskPlaces:
    database = {"ENGINE": SQLITE, "NAME": str(plan.data.database)}
    return disk.find_places(plan.data, plan.runtime, database, storage_from(f"file://{plan.data.blobs}"))


@pytest.fixture
def bounded(settings: Settings, places: DiskPlaces, data: DataDirectory) -> Settings:
    settings.DISK_PLACES, settings.DISK_ACCOUNT = places, data.disk_account
    settings.DISK_SHARES = divide_disk(LEAST_BYTES, DiskData())
    return settings


def write(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def test_a_bucket_and_a_database_server_have_no_place_on_this_disk(plan: ProcessPlan, places: DiskPlaces) -> None:
    elsewhere = {"ENGINE": "django.db.backends.postgresql", "NAME": "tarry"}
    found = disk.find_places(plan.data, plan.runtime, elsewhere, storage_from("s3://key:secret@s3.example/bucket"))
    assert found == replace(places, database=None, layers=None, served=None, files=plan.data.held)


@pytest.mark.usefixtures("bounded")
def test_a_start_counts_the_files_that_are_there_once(data: DataDirectory, plan: ProcessPlan) -> None:
    file = write(data.blobs / "mirror" / "ab" / "cd" / f"abcd{'0' * 60}", 100_000)
    run._bound_disk(plan)
    account = DiskAccount(data.disk_account)
    assert account.read_files() >= 100_000
    assert json.loads(data.disk_shares.read_text())["bound_bytes"] == LEAST_BYTES
    file.unlink()
    run._bound_disk(plan)
    assert account.read_files() >= 100_000  # the sweeper counts again
    account.take_room(1000)


def test_without_a_bound_no_account_is_kept(data: DataDirectory, plan: ProcessPlan, settings: Settings) -> None:
    DiskAccount(data.disk_account).open_new([0] * SHELF_COUNT)
    settings.DISK_SHARES = None
    run._bound_disk(plan)
    assert not data.disk_account.exists()


@pytest.mark.parametrize(("size", "says"), [(1_000, False), (3_000_000, True)])
def test_the_operator_is_warned_of_data_that_leave_no_room(
    bounded: Settings, plan: ProcessPlan, capsys: pytest.CaptureFixture[str], size: int, says: bool
) -> None:
    bounded.DISK_SHARES = divide_disk(3_100_000, DiskData())
    write(plan.data.database, size)
    run._bound_disk(plan)
    told = capsys.readouterr().err
    assert ("DISK_MAX_BYTES leaves no room" in told, "(project.W003)" in told) == (says, says)


def test_logs_of_processes_are_shortened_to_their_last_bytes_and_no_other(
    bounded: Settings, data: DataDirectory, plan: ProcessPlan
) -> None:
    names = ["main.log", "main.log.1", "traffic.log", "traffic.log.0001700000000000000", "short.log"]
    before = {name: write(data.logs / name, 10 if name == "short.log" else 2_000_000).read_bytes() for name in names}
    run._bound_disk(plan)
    after = {name: (data.logs / name).read_bytes() for name in names}
    most = run._log_bytes(processes.list_processes(plan))
    assert most < 2_000_000
    for name in names:
        assert after[name] == (before[name][-most:] if name.startswith("main") else before[name])


def test_no_log_is_larger_than_its_share_and_none_than_without_a_bound(bounded: Settings, plan: ProcessPlan) -> None:
    supervised = processes.list_processes(plan)
    files = processes.count_log_files(supervised)
    assert files == 3 * (len(supervised) + 1)
    assert run._log_bytes(supervised) * files <= bounded.DISK_SHARES.logs_bytes / 2
    bounded.DISK_SHARES = divide_disk(10**13, DiskData())
    assert run._log_bytes(supervised) == processes.LOG_MAX_BYTES
