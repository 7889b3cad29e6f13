"""Ten minutes of all kinds of work at once, during which no process may keep growing."""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from statistics import median
from uuid import uuid4

import requests

from tests.support import feed_server, file_server
from tests.support.feed_server import FeedServers
from tests.support.file_server import FileServer
from tests.support.stack import Stack

from ..feeds.subscriptions import subscribe
from ..figures import Figure, Note
from ..load.event_loop import run
from ..load.steady import Timed, ask_steadily
from ..machine import MEGABYTE, memory
from ..tiles.tile_requests import painted_tile

SECONDS, WARM_SECONDS, STEP_SECONDS = 600, 150, 10
RATE, CONNECTIONS, WARM_TIMES = 60, 30, 3
"""Requests a second, connections, and the multiple of the rate during the warm-up.

A process keeps the memory that it takes when all of its threads have a request: the warm-up must reach that once.
"""
COLD, DEMO_TILES, MIRRORED = 0.1, 0.1, 0.05
"""Shares of the requests; the others are for one cached tile."""
REPORTED, FEEDS = 20, 40
"""New URLs in each step; feeds, fetched once a minute."""
MEGABYTES_PER_HOUR, KEYS_PER_HOUR = 60, 60
"""Limits of the growth of each process, the Redis servers included, and of keys of `state` that never expire.

Main's two processes of eight threads each still reach new heights now and then, and keep that memory: less than
60 MB/h, 10 MB in the measured time, is no sign of a leak. 300 bytes kept of each request would be 65 MB/h.
"""
ENVIRONMENT = {"DEMO": "1", "FEEDS_LEAST_SECONDS": "60", "FEEDS_MOST_SECONDS": "60"}

Sample = tuple[float, float]
"""Seconds since the start, and the reading."""


@dataclass
class Readings:
    """Megabytes by process, and the keys of `state` that never expire."""

    memory: dict[str, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    keys: list[Sample] = field(default_factory=list)

    def take(self, stack: Stack, passed: float) -> None:
        listed = stack.supervisor().supervisor.getAllProcessInfo()
        assert isinstance(listed, list)
        processes = {str(one["name"]): stack.pids(str(one["name"])) for one in listed}
        for name, pids in {"supervisord": stack.all_pids()[:1], **processes}.items():
            self.memory[name].append((passed, memory(pids).own / MEGABYTE))
        kept = stack.state.info("keyspace").get("db0", {"keys": 0, "expires": 0})
        self.keys.append((passed, kept["keys"] - kept["expires"]))


def measure() -> Iterator[Figure | Note]:
    """The slopes of each process' own memory (USS), after it has loaded its data, and of the keys of `state`."""
    with ExitStack() as everything:
        files = everything.enter_context(file_server.running())
        publishers = everything.enter_context(feed_server.running(4))
        stack = everything.enter_context(Stack(**ENVIRONMENT))
        readings, answers = _soak(stack, files, publishers)
    statuses = dict(sorted(answers.items()))
    yield Note(f"{answers.total():,} requests in {WARM_SECONDS + SECONDS} s; answers by status: {statuses}")
    yield Figure("answers that were no content", answers.total() - answers[200], at_most=0)
    for name, found in sorted(readings.memory.items()):
        yield Note(f"{name:<14}{found[0][1]:7.1f} MB at {found[0][0]:.0f} s, {found[-1][1]:7.1f} MB at the end")
        yield Figure(f"slope of {name}'s memory", slope(found) * 3600, "MB/h", at_most=MEGABYTES_PER_HOUR)
    keys = slope(readings.keys) * 3600
    yield Figure("slope of the keys of `state` that never expire", keys, "/h", at_most=KEYS_PER_HOUR)


def slope(found: Sequence[Sample]) -> float:
    """Its growth in a second: the median of the slopes between all pairs (Theil, Sen), deaf to single jumps."""
    pairs = [(one, other) for place, one in enumerate(found) for other in found[place + 1 :]]
    return median((other[1] - one[1]) / (other[0] - one[0]) for one, other in pairs)


def _soak(stack: Stack, files: FileServer, publishers: FeedServers) -> tuple[Readings, Counter[int]]:
    load = Load(stack, files, publishers)
    readings = Readings()
    answers: Counter[int] = Counter()
    began = time.monotonic()
    while (passed := time.monotonic() - began - WARM_SECONDS) < SECONDS:
        load.change()
        answers.update(one.visit.status for one in run(_step(stack, load, WARM_TIMES if passed < 0 else 1)))
        if passed >= 0:
            readings.take(stack, passed)
    return readings, answers


async def _step(stack: Stack, load: "Load", times: int) -> list[Timed]:
    rate = RATE * times
    return await ask_steadily(stack.host, load.paths(rate * STEP_SECONDS), rate=rate, connections=CONNECTIONS * times)


class Load:
    """The requests of a step, and the changes between two: files to mirror, entries of feeds."""

    def __init__(self, stack: Stack, files: FileServer, publishers: FeedServers) -> None:
        self._stack, self._files, self._publishers = stack, files, publishers
        self._luck = random.Random(1)
        self._tile = painted_tile(stack)
        self._mirrored: list[str] = []
        token = stack.manage("create_token", "soak", "--mirror").strip()
        self._headers = {"Authorization": f"Bearer {token}"}
        subscribe(stack, [f"{publishers.urls[number % len(publishers.urls)]}/{number}" for number in range(FEEDS)])

    def change(self) -> None:
        """New files are reported, and every feed has a new entry and changed ones."""
        self._mirrored = [f"/resources/{sha256(body).hexdigest()}" for body in self._files.files.values()]
        self._files.files = {f"/{uuid4().hex}": uuid4().bytes * 1000 for _ in range(REPORTED)}
        urls = [self._files.url + path for path in self._files.files]
        url = f"{self._stack.base_url}/api/resources"
        requests.post(url, json={"urls": urls}, headers=self._headers, timeout=60).raise_for_status()
        self._publishers.edition = uuid4().hex
        self._publishers.names = [*self._publishers.names[-20:], uuid4().hex]

    def paths(self, number: int) -> list[str]:
        return [self._path() for _ in range(number)]

    def _path(self) -> str:
        luck = self._luck.random()
        if luck < COLD:
            return f"/slow/{uuid4().hex}?kind=cold&size=5000&fresh=60&stale=60"
        if luck < COLD + DEMO_TILES:
            return f"/tiles/jams/12/{self._luck.randint(2040, 2052)}/{self._luck.randint(1356, 1366)}.png"
        if luck < COLD + DEMO_TILES + MIRRORED:
            return self._luck.choice(self._mirrored or ["/feeds/all.json"])
        return self._luck.choice([self._tile, self._tile, self._tile, "/feeds/all.atom"])
