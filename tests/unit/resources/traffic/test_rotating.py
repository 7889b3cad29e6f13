"""Rotation and removal of log files; only nginx is signalled. With a real nginx: tests/nginx."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from resources.traffic import log_files

NOW = 1_795_262_400.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "traffic.log"
    path.write_text("a line\n" * 100)
    return path


def rotate(log: Path, pid: str) -> bool:
    (log.parent / "nginx.pid").write_text(pid)
    return log_files.rotate_log(log, 100, log.parent / "nginx.pid", NOW)


@pytest.mark.parametrize("pid", ["", "garbage", "-1", "999999999"])
def test_without_nginx_nothing_is_put_aside(log: Path, pid: str) -> None:
    assert not rotate(log, pid)
    assert log.exists()


def test_another_process_of_that_number_is_not_signalled(log: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        assert not rotate(log, str(other.pid))
        assert other.poll() is None
        other.kill()
    assert log.exists()


def age(path: Path, seconds: float) -> Path:
    os.utime(path, (NOW - seconds, NOW - seconds))
    return path


def test_a_file_put_aside_is_removed_when_it_has_been_quiet(log: Path) -> None:
    aside = log.with_name("traffic.log.1795262400000")
    aside.touch()
    assert not log_files.remove_counted(age(aside, 10), log, NOW)
    assert log_files.remove_counted(age(aside, 100), log, NOW)
    assert not aside.exists()
    assert not log_files.remove_counted(aside, log, NOW)


def test_a_file_put_aside_stays_as_long_as_there_is_no_new_log(log: Path) -> None:
    aside = log.rename(log.with_name("traffic.log.1795262400000"))
    assert not log_files.remove_counted(age(aside, 100), log, NOW)


def put_aside(log: Path, number: int, age_seconds: float) -> Path:
    """A file of 1,000 bytes."""
    path = log.with_name(f"{log.name}.{1_795_262_400_000 + number}")
    path.write_text(f"{number:04}\n" * 200)
    return age(path, age_seconds)


def test_of_too_much_that_was_put_aside_the_oldest_is_dropped(log: Path) -> None:
    files = [put_aside(log, number, 100 - number) for number in range(5)]
    assert log_files.drop_oldest(log, 5000, {}) == 0
    assert log_files.drop_oldest(log, 3999, {}) == 2000
    assert [path.exists() for path in files] == [False, False, True, True, True]
    assert log.exists()


def test_what_was_counted_already_is_not_lost(log: Path) -> None:
    put_aside(log, 1, 50)
    put_aside(log, 2, 40)
    with log_files.open_logs(log, NOW) as [first, second, _]:
        counted = {first.identity: 1000, second.identity: 400}
    assert log_files.drop_oldest(log, 0, counted) == 600


@pytest.mark.parametrize("name", ["traffic.log", "traffic.log.1", "traffic.log-20261121", "traffic.log.id"])
def test_files_of_others_are_never_removed(log: Path, name: str) -> None:
    path = log.with_name(name)
    path.touch()
    assert not log_files.remove_counted(age(path, 1e6), log, time.time())
    assert log_files.drop_oldest(log, 0, {}) == 0
    assert path.exists()
