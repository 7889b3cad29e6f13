"""The log's files: known by their first lines, read in whole lines, rotated and removed. With nginx: tests/nginx."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from resources.traffic import log_files
from resources.traffic.log_files import LogSlice


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "traffic.log"


def found(log: Path) -> list[log_files.LogFile]:
    with log_files.open_logs(log, time.time()) as files:
        return files


def names(log: Path) -> list[str]:
    return [file.path.name for file in found(log)]


def slices(log: Path, start: int = 0, most: int = 1000) -> LogSlice | None:
    with log_files.open_logs(log, time.time()) as [file]:
        return log_files.read_slice(file, start, most)


def put(path: Path, text: str, *, age: float = 0) -> None:
    path.write_text(text)
    os.utime(path, (time.time() - age, time.time() - age))


def test_the_oldest_file_is_read_first_and_the_log_itself_last(log: Path) -> None:
    put(log, "new\n")
    put(log.with_name("traffic.log.1"), "old\n", age=100)
    put(log.with_name("traffic.log-20261121"), "older\n", age=200)
    assert names(log) == ["traffic.log-20261121", "traffic.log.1", "traffic.log"]


def test_compressed_files_and_other_programs_old_ones_are_left_out(log: Path) -> None:
    put(log.with_name("traffic.log.2.gz"), "packed\n")
    put(log.with_name("traffic.log.3"), "long ago\n", age=2 * 86_400)
    put(log.with_name("traffic.log.1795262400000"), "ours\n", age=2 * 86_400)
    assert names(log) == ["traffic.log.1795262400000"]


def test_there_is_no_file_before_it_has_a_whole_line(log: Path) -> None:
    assert names(log) == []
    for text in ("", "half"):
        log.write_text(text)
        assert names(log) == []


def test_a_file_stays_the_same_when_it_grows_is_renamed_or_copied(log: Path) -> None:
    log.write_text("first\n")
    [before] = found(log)
    with log.open("a") as file:
        file.write("second\n")
    other = log.with_name("traffic.log.1")
    log.rename(other)
    log.write_bytes(other.read_bytes())
    assert [file.identity for file in found(log)] == [before.identity, before.identity]


def test_a_file_that_was_emptied_and_written_anew_is_another(log: Path) -> None:
    log.write_text("first\n" * 10)
    number = log.stat().st_ino
    with log_files.open_logs(log, time.time()) as [file]:
        log.write_text("another first\n" * 10)
        assert log.stat().st_ino == number
        assert not file.is_still_the_same()


@pytest.mark.parametrize(
    ("text", "start", "most", "expected"),
    [
        ("one\ntwo\nthr", 0, 1000, LogSlice(b"one\ntwo", 8)),
        ("one\ntwo\nthr", 8, 1000, None),
        ("one\ntwo\nthr", 4, 1000, LogSlice(b"two", 8)),
        ("one\ntwo\nthree\n", 0, 9, LogSlice(b"one\ntwo", 8)),
        ("one\n\n", 4, 1000, LogSlice(b"", 5)),
    ],
)
def test_only_whole_lines_are_read(log: Path, text: str, start: int, most: int, expected: LogSlice | None) -> None:
    log.write_text(text)
    assert slices(log, start, most) == expected


def test_a_log_has_a_name_of_its_own_that_stays(log: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    kept = []
    for each in (log, log, tmp_path / "other" / "traffic.log"):
        with log_files.hold_log(each) as name:
            kept.append(name)
    assert kept[0] == kept[1] != kept[2]


def test_a_name_that_was_half_written_is_made_anew(log: Path) -> None:
    log.with_name("traffic.log.id").write_text("abc")
    with log_files.hold_log(log) as name:
        assert name is not None
        assert len(name) == 32
    assert log.with_name("traffic.log.id").read_text() == name


def test_one_pass_at_a_time_holds_a_log(log: Path) -> None:
    with log_files.hold_log(log) as first, log_files.hold_log(log) as second:
        assert first is not None
        assert second is None
    with log_files.hold_log(log) as third:
        assert third == first


NOW = 1_795_262_400.0


@pytest.fixture
def full_log(tmp_path: Path) -> Path:
    path = tmp_path / "traffic.log"
    path.write_text("a line\n" * 100)
    return path


def rotate(full_log: Path, pid: str) -> bool:
    (full_log.parent / "nginx.pid").write_text(pid)
    return log_files.rotate_log(full_log, 100, full_log.parent / "nginx.pid", NOW)


@pytest.mark.parametrize("pid", ["", "garbage", "-1", "999999999"])
def test_without_nginx_nothing_is_put_aside(full_log: Path, pid: str) -> None:
    assert not rotate(full_log, pid)
    assert full_log.exists()


def test_another_process_of_that_number_is_not_signalled(full_log: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        assert not rotate(full_log, str(other.pid))
        assert other.poll() is None
        other.kill()
    assert full_log.exists()


def age(path: Path, seconds: float) -> Path:
    os.utime(path, (NOW - seconds, NOW - seconds))
    return path


def test_a_file_put_aside_is_removed_when_it_has_been_quiet(full_log: Path) -> None:
    aside = full_log.with_name("traffic.log.1795262400000")
    aside.touch()
    assert not log_files.remove_counted(age(aside, 10), full_log, NOW)
    assert log_files.remove_counted(age(aside, 100), full_log, NOW)
    assert not aside.exists()
    assert not log_files.remove_counted(aside, full_log, NOW)


def test_a_file_put_aside_stays_as_long_as_there_is_no_new_log(full_log: Path) -> None:
    aside = full_log.rename(full_log.with_name("traffic.log.1795262400000"))
    assert not log_files.remove_counted(age(aside, 100), full_log, NOW)


@pytest.mark.parametrize("name", ["traffic.log", "traffic.log.1", "traffic.log-20261121", "traffic.log.id"])
def test_files_of_others_are_never_removed(full_log: Path, name: str) -> None:
    path = full_log.with_name(name)
    path.touch()
    assert not log_files.remove_counted(age(path, 1e6), full_log, time.time())
    assert log_files.drop_oldest(full_log, 0, {}) == 0
    assert path.exists()
