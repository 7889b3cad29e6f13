"""Measuring the parts of a site on the disk: as `du` does, each byte once."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from resources.disk.account import SHELF_COUNT, DiskAccount
from resources.disk.meter import DiskMeter, DiskPlaces, DiskUse, count_shelves, count_spooled, count_tree, measure_data
from resources.disk.shares import DiskShares, divide_disk

BOUND = 256_000_000


@pytest.fixture
def places(tmp_path: Path) -> DiskPlaces:
    data, runtime = tmp_path / "data", tmp_path / "run"
    blobs = data / "blobs"
    return DiskPlaces(
        data=data,
        runtime=runtime,
        database=data / "db.sqlite3",
        state=data / "state",
        layers=blobs / "layers",
        files=blobs / "mirror",
        served=blobs / "served",
        hot=data / "hot",
        logs=data / "logs",
        spool=data / "spool",
        uploads=data / "uploads",
        requests=(runtime / "nginx" / "body", runtime / "nginx" / "proxy"),
    )


def write(path: Path, size: int = 10_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


@pytest.fixture
def filled(places: DiskPlaces) -> DiskPlaces:
    """A site with files of all parts, a mirrored file with a link, and one that was fetched just now."""
    for file in places.database_files[:2]:
        write(file, 50_000)
    for folder in (places.state, places.layers, places.hot, places.logs, places.uploads, *places.requests):
        assert folder
        write(folder / "deep" / "er" / "file", 20_000)
    stored = write(places.files / "ab" / "cd" / f"abcd{'0' * 60}", 100_000)
    assert places.served
    (places.served / "ab").mkdir(parents=True)
    os.link(stored, places.served / "ab" / "name.png")
    write(places.spool / "held-1" / "fetch-1", 70_000)
    os.link(stored, places.spool / "held-1" / "fetch-2")
    write(places.data / "static" / "style.css", 30_000)
    write(places.data / "postgres" / "base" / "1", 300_000)
    return places


def du(*paths: Path) -> int:
    told = subprocess.run(["du", "-scB1", *map(str, paths)], capture_output=True, check=True, text=True).stdout
    return int(told.splitlines()[-1].split()[0])


def measure(places: DiskPlaces, shares: DiskShares) -> tuple[DiskUse, DiskAccount]:
    account = DiskAccount(places.data / "account")
    account.open_new(count_shelves(places))
    return DiskMeter(places, shares, account).measure(0), account


def test_the_parts_together_are_what_du_finds(filled: DiskPlaces) -> None:
    shares = divide_disk(BOUND, measure_data(filled))
    use, _ = measure(filled, shares)
    folders = 8 * 4096  # around the parts
    assert du(filled.data, filled.runtime) - folders <= use.total_bytes <= du(filled.data, filled.runtime)
    assert use.parts["other"] >= 330_000
    assert use.parts["files"] >= 100_000
    assert 70_000 <= count_spooled(filled.spool) < 80_000
    assert use.files_limit == shares.files_limit(measure_data(filled))
    assert not use.trouble


def test_a_site_without_any_file_takes_nothing(places: DiskPlaces) -> None:
    assert measure_data(places).total_bytes == 0
    assert count_shelves(places) == [0] * SHELF_COUNT


def test_whole_trees_are_measured_once_a_minute(filled: DiskPlaces) -> None:
    account = DiskAccount(filled.data / "account")
    account.open_new([0] * SHELF_COUNT)
    meter = DiskMeter(filled, divide_disk(BOUND, measure_data(filled)), account)
    before = meter.measure(100).parts
    write(filled.hot / "new", 1_000_000)
    write(filled.logs / "new", 1_000_000)
    soon, later = meter.measure(159).parts, meter.measure(160).parts
    assert soon["hot"] == before["hot"]
    assert soon["logs"] >= before["logs"] + 1_000_000
    assert later["hot"] >= before["hot"] + 1_000_000


def test_data_that_leave_no_room_and_a_site_above_its_bound_are_troubles(filled: DiskPlaces) -> None:
    small = DiskShares(650_000, 10, 10, 10)
    use, account = measure(filled, small)
    assert account.is_full()
    roomy = DiskUse(use.bound_bytes * 2, use.parts, use.files_limit, use.is_full)
    assert "DISK_MAX_BYTES leaves no room for new files" in roomy.trouble
    write(filled.data / "db.sqlite3", 2_000_000)
    over = measure(filled, small)[0].trouble
    assert "more than DISK_MAX_BYTES; its data take" in over
    assert over.endswith("leaves no room for new files")


def test_a_link_to_a_folder_is_not_followed_and_what_vanishes_counts_nothing(tmp_path: Path) -> None:
    write(tmp_path / "far" / "file", 1_000_000)
    (tmp_path / "near").mkdir()
    (tmp_path / "near" / "link").symlink_to(tmp_path / "far")
    assert count_tree(tmp_path / "near") < 100_000
    assert count_tree(tmp_path / "none") == 0


@pytest.mark.parametrize("nothing", [(), ("database", "layers", "served")])
def test_places_come_back_from_their_note(places: DiskPlaces, nothing: tuple[str, ...]) -> None:
    without: dict[str, Any] = dict.fromkeys(nothing)
    one = replace(places, **without)
    assert DiskPlaces.from_json(json.loads(json.dumps(one.to_json()))) == one
