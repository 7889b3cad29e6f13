"""A site with a bounded disk takes no more while files fill it, also after a kill, and says when it is full."""

import json
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import requests

from resources.disk.meter import count_tree
from resources.disk.shares import DiskShares

from ..support.crowd import Crowd
from ..support.layers import load_line
from ..support.server import Handler, serving
from ..support.stack import Stack, eventually

pytestmark = [pytest.mark.no_database, pytest.mark.timeout(400)]

BOUND_BYTES = 256_000_000
FILE_BYTES, FILES = 600_000, 290
"""Together a third more than the room for files. Each may be kept hot."""


BALLAST, BALLAST_SECONDS = 35, 2
"""Portions of 4 MB that fill the database, and the time between two of them."""


class Files(Handler):
    """An origin whose paths are the seeds of its files."""

    def do_GET(self) -> None:  # noqa: N802  as the library calls it
        body = random.Random(self.path).randbytes(FILE_BYTES)
        self.answer(200, body, Content_Type="application/octet-stream")


class DiskWatch:
    """The most that a site, and its hot cache, ever took of the disk, looked at again and again."""

    def __init__(self, stack: Stack) -> None:
        self.most_bytes = self.most_hot_bytes = 0
        self._hot = stack.data / "hot"
        self._folders = (stack.data, stack.runtime)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "DiskWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            self.most_bytes = max(self.most_bytes, self.measure())
            self.most_hot_bytes = max(self.most_hot_bytes, count_tree(self._hot))

    def measure(self) -> int:
        return sum(map(count_tree, self._folders))


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving(Files, ("127.0.0.1", 0)) as url:
        yield url


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack(
        SMALL="1",
        DISK_MAX_BYTES=str(BOUND_BYTES),
        FETCH_DELAY_SECONDS="0.01",
        FETCH_MAX_PER_SECOND="1000",
        FETCH_IN_FLIGHT="8",
        FETCH_BYTES_PER_SECOND="0",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def watch(stack: Stack) -> Iterator[DiskWatch]:
    with DiskWatch(stack) as watching:
        yield watching


def part_of(stack: Stack, part: str) -> float:
    return stack.metric("tarry_machine_disk_part_bytes", part=part)


def count_stored(stack: Stack) -> int:
    return len([path for path in (stack.data / "blobs" / "mirror").rglob("*") if path.is_file()])


def grow_database(stack: Stack, portions: int, pause_seconds: float = 0) -> None:
    with closing(sqlite3.connect(stack.data / "db.sqlite3", timeout=30)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS ballast (data BLOB)")
        for _ in range(portions):
            database.execute("INSERT INTO ballast VALUES (zeroblob(4000000))")
            database.commit()
            time.sleep(pause_seconds)  # files make room meanwhile


def test_files_and_tiles_fill_no_more_than_the_bound_also_after_a_kill(
    stack: Stack, watch: DiskWatch, origin: str, crowd: Crowd, tmp_path: Path
) -> None:
    tile = load_line(stack, "line", tmp_path)
    listed = tmp_path / "urls"
    listed.write_text("".join(f"{origin}/{number}\n" for number in range(FILES)))
    stack.manage("ingest", str(listed), "--no-wait")
    eventually(lambda: count_stored(stack) >= 50, 60, "files are fetched")
    stack.crash()  # in the middle of fetches
    stack.start()
    eventually(lambda: count_stored(stack) >= 160, 90, "the room for files is nearly used up")
    signed = stack.manage("sign_url", *(f"{origin}/{number}" for number in range(FILES))).split()
    addresses = [address.removeprefix(stack.base_url) for address in signed]
    deadline, seen = time.monotonic() + 200, set[int]()
    while time.monotonic() < deadline and len(seen) < FILES:
        for number, visit in enumerate(crowd.send(addresses, lenient=True).result(120)):
            if visit.status == 200:
                seen.add(number)
            else:
                assert visit.is_honest_refusal, visit.statuses
        assert crowd.send([f"/tiles/line/{zoom}/0/0.png" for zoom in range(1, 8)]).result(60)[0].status == 200
    assert len(seen) == FILES  # older ones made room
    assert crowd.visit(tile).status == 200
    assert watch.most_bytes <= BOUND_BYTES
    shares = DiskShares(**json.loads((stack.data / "disk_shares.json").read_text()))
    assert shares.hot_max_bytes / 2 < watch.most_hot_bytes <= shares.hot_bytes
    assert stack.metric("tarry_machine_disk_max_bytes") == BOUND_BYTES


def test_the_parts_of_the_metric_are_what_the_disk_has(stack: Stack, watch: DiskWatch) -> None:
    def agrees() -> bool:
        told, there = stack.metric("tarry_machine_disk_part_bytes"), watch.measure()
        return abs(told - there) < BOUND_BYTES / 50

    eventually(agrees, 90, "the metric agrees with the disk")


def test_a_database_that_leaves_no_room_is_told_and_nothing_more_is_stored(
    stack: Stack, watch: DiskWatch, origin: str
) -> None:
    token = stack.manage("create_token", "disk", "--mirror").strip()
    grow_database(stack, BALLAST, BALLAST_SECONDS)
    eventually(lambda: stack.health()[0] == 503, 60, "the machine's trouble shows")
    headers = {"Authorization": f"Bearer {token}"}
    report = f"{stack.base_url}/api/resources"
    answer = requests.post(report, json={"urls": [f"{origin}/new"]}, headers=headers, timeout=30)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "60")
    assert "leaves no room" in (stack.data / "logs" / "supervisord.log").read_text()
    eventually(lambda: count_stored(stack) == 0, 150, "files make room for the database")
    assert watch.most_bytes <= BOUND_BYTES
    stack.crash()
    grow_database(stack, BALLAST // 2)  # a start divides anew what is left
    stack.begin_to_start()
    eventually(lambda: "DISK_MAX_BYTES leaves no room" in stack.output.read_text(), 60, "the start says so")
