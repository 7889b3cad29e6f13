"""Feeds read in child processes: their bounds, and the results of feeds that exceed them.

A child that was killed, and its environment: mirror/media/test_thumbnail_process.
"""

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Timer

import pytest

from feeds.readings import BodyToRead, FeedReading, NoFeed
from feeds.scan import reader_process
from feeds.scan.reader_process import ReaderPool, ReadersBusyError
from resources.fetch.http.messages import Body
from resources.sandbox import ChildAllowance
from tests.support.feed_scans import rss

MEBIBYTE = 1024 * 1024
ALLOWANCE = ChildAllowance(1024 * MEBIBYTE, 20)
QUESTION = BodyToRead("application/rss+xml", "https://example.org/feed", datetime(2026, 11, 1, tzinfo=UTC), ())


@pytest.fixture
def lost() -> list[str]:
    """Why readers ended over a feed."""
    return []


@pytest.fixture
def readers(lost: list[str]) -> Iterator[ReaderPool]:
    made = ReaderPool(1, 60, lost.append)
    yield made
    made.close()


def pids(readers: ReaderPool) -> list[int]:
    return [child.pid for child in readers._all if child.pid]


def body(data: bytes) -> Body:
    return Body(len(data), sha256(data).hexdigest(), data)


def titles(found: FeedReading | NoFeed) -> list[str]:
    assert isinstance(found, FeedReading), found
    return [row.title for row in found.rows]


def test_one_reader_reads_them_all_from_memory_or_from_a_file(readers: ReaderPool, tmp_path: Path) -> None:
    first = readers.read(body(rss("one")), QUESTION, ALLOWANCE)
    before = pids(readers)
    file = tmp_path / "body"
    file.write_bytes(rss("two"))
    second = readers.read(Body(file.stat().st_size, "", path=file), QUESTION, ALLOWANCE)

    assert titles(first) + titles(second) == ["one", "two"]
    assert len(before) == 1
    assert pids(readers) == before


def test_a_feed_that_takes_more_memory_than_there_is_harms_no_other(readers: ReaderPool) -> None:
    large = rss(*(f"{number} {'x' * 1000}" for number in range(20_000)))

    assert isinstance(readers.read(body(large), QUESTION, ChildAllowance(70 * MEBIBYTE, 60)), NoFeed)
    readers.close()
    assert titles(readers.read(body(rss("one")), QUESTION, ALLOWANCE)) == ["one"]


def test_a_reader_that_takes_too_long_is_ended_and_the_next_feed_is_read(readers: ReaderPool, lost: list[str]) -> None:
    readers.read(body(rss("one")), QUESTION, ALLOWANCE)
    os.kill(pids(readers)[0], signal.SIGSTOP)

    found = readers.read(body(rss("one")), QUESTION, ChildAllowance(1024 * MEBIBYTE, 0.1))
    assert found == NoFeed(reader_process.READING_TOO_LONG)
    assert titles(readers.read(body(rss("two")), QUESTION, ALLOWANCE)) == ["two"]
    assert lost == ["too long"]


def test_a_reader_that_dies_of_a_feed_is_counted(readers: ReaderPool, lost: list[str]) -> None:
    readers.read(body(rss("one")), QUESTION, ALLOWANCE)
    child = pids(readers)[0]
    os.kill(child, signal.SIGSTOP)
    Timer(0.3, os.kill, (child, signal.SIGKILL)).start()

    assert readers.read(body(rss("one")), QUESTION, ALLOWANCE) == NoFeed(reader_process.READER_FAILED)
    assert lost == ["died"]


def test_a_feed_for_which_there_is_no_reader_is_not_said_to_be_none() -> None:
    with pytest.raises(ReadersBusyError):
        ReaderPool(0, 60, str).read(body(rss("one")), QUESTION, ChildAllowance(MEBIBYTE, 0.01))
