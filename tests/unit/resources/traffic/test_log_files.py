"""The log's files: known by their first lines, read in whole lines."""

import os
import time
from pathlib import Path

import pytest

from resources.traffic import journal
from resources.traffic.journal import Slice


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "traffic.log"


def names(log: Path) -> list[str]:
    with journal.opened(log, time.time()) as files:
        return [file.path.name for file in files]


def identities(log: Path) -> list[str]:
    with journal.opened(log, time.time()) as files:
        return [file.identity for file in files]


def slices(log: Path, start: int = 0, most: int = 1000) -> Slice | None:
    with journal.opened(log, time.time()) as [file]:
        return journal.read(file, start, most)


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


def test_without_a_log_there_is_no_file(log: Path) -> None:
    assert names(log) == []


def test_a_file_without_a_whole_line_is_none_yet(log: Path) -> None:
    log.write_text("")
    assert names(log) == []
    log.write_text("half")
    assert names(log) == []


def test_a_file_stays_the_same_when_it_grows_is_renamed_or_copied(log: Path) -> None:
    log.write_text("first\n")
    [before] = identities(log)
    with log.open("a") as file:
        file.write("second\n")
    other = log.with_name("traffic.log.1")
    log.rename(other)
    log.write_bytes(other.read_bytes())
    assert identities(log) == [before, before]


def test_a_file_that_was_emptied_and_written_anew_is_another(log: Path) -> None:
    log.write_text("first\n" * 10)
    number = log.stat().st_ino
    with journal.opened(log, time.time()) as [file]:
        log.write_text("another first\n" * 10)
        assert log.stat().st_ino == number
        assert not file.is_still_the_same()


def test_only_whole_lines_are_read(log: Path) -> None:
    log.write_text("one\ntwo\nthr")
    assert slices(log) == Slice(b"one\ntwo", 8)
    assert slices(log, 8) is None
    assert slices(log, 4) == Slice(b"two", 8)


def test_a_slice_ends_with_its_last_whole_line(log: Path) -> None:
    log.write_text("one\ntwo\nthree\n")
    assert slices(log, most=9) == Slice(b"one\ntwo", 8)


def test_a_line_that_is_longer_than_a_slice_is_passed_over(log: Path) -> None:
    log.write_text("x" * 25 + "\nnext\n")
    place, found = 0, []
    while piece := slices(log, place, 10):
        found.append(piece.data)
        place = piece.end
    assert found == [b"x" * 10, b"x" * 10, b"x" * 5, b"next"]


def test_an_empty_line_is_a_line(log: Path) -> None:
    log.write_text("one\n\n")
    assert slices(log, 4) == Slice(b"", 5)


def test_a_log_has_a_name_of_its_own_that_stays(log: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    found = []
    for each in (log, log, tmp_path / "other" / "traffic.log"):
        with journal.held(each) as name:
            found.append(name)
    assert found[0] == found[1] != found[2]


def test_a_name_that_was_half_written_is_made_anew(log: Path) -> None:
    log.with_name("traffic.log.id").write_text("abc")
    with journal.held(log) as name:
        assert name is not None
        assert len(name) == 32
    assert log.with_name("traffic.log.id").read_text() == name


def test_one_pass_at_a_time_holds_a_log(log: Path) -> None:
    with journal.held(log) as first, journal.held(log) as second:
        assert first is not None
        assert second is None
    with journal.held(log) as third:
        assert third == first
