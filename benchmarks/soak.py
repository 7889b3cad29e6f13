"""Ten minutes of everything at once: whether the memory of any process goes on growing."""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from hashlib import sha256
from statistics import median
from uuid import uuid4

import requests

from benchmarks.figures import Figure, Note
from benchmarks.processes import MEGABYTE, memory
from benchmarks.running import run
from benchmarks.steady import Timed, ask_steadily
from benchmarks.tiles import painted_tile
from tests.flows import feed_server, file_server
from tests.flows.feed_server import FeedServers
from tests.flows.file_server import FileServer
from tests.flows.stack import Stack

SECONDS, WARM_SECONDS, STEP_SECONDS = 600, 150, 10
RATE, CONNECTIONS, WARM_TIMES = 60, 30, 3
"""Requests a second, and how many times as many come before the time that counts.

What a process takes for as many requests at once as it has threads it keeps for the next time: they must meet once.
"""
COLD, DEMO_TILES, MIRRORED = 0.1, 0.1, 0.05
"""Shares of the requests; the others are for one cached tile."""
REPORTED, FEEDS = 20, 40
"""New URLs in each step; feeds, fetched once a minute."""
MEGABYTES_PER_HOUR = 60
BOUNDED = {"cache": "CACHE_MAX_BYTES", "state": "STATE_MAX_BYTES"}
"""Redis servers have limits of their own; theirs are filled up before the time that counts."""
ENVIRONMENT = {"DEMO": "1", "FEEDS_LEAST_SECONDS": "60", "FEEDS_MOST_SECONDS": "60", "CACHE_MAX_BYTES": "33554432"}

Samples = dict[str, list[tuple[float, float]]]
"""By process: seconds since the start, megabytes."""


def measure() -> Iterator[Figure | Note]:
    """The slope of each process' own memory (USS), after it has loaded what it needs."""
    with ExitStack() as everything:
        files = everything.enter_context(file_server.running())
        publishers = everything.enter_context(feed_server.running(4))
        stack = everything.enter_context(Stack(**ENVIRONMENT))
        samples, answers = _soak(stack, files, publishers)
    yield Note(f"{sum(answers.values()):,} requests in {SECONDS} s; answers by status: {dict(sorted(answers.items()))}")
    yield Figure("answers that were none, or 500", answers[0] + answers[500], at_most=0)
    for name, found in sorted(samples.items()):
        yield Note(f"{name:<14}{found[0][1]:7.1f} MB at {found[0][0]:.0f} s, {found[-1][1]:7.1f} MB at the end")
        bound = None if name in BOUNDED else MEGABYTES_PER_HOUR
        yield Figure(f"slope of {name}'s memory", slope(found) * 3600, "MB/h", at_most=bound)


def slope(found: Sequence[tuple[float, float]]) -> float:
    """Megabytes a second: the median of the slopes between all pairs (Theil, Sen), deaf to single jumps."""
    pairs = [(one, other) for place, one in enumerate(found) for other in found[place + 1 :]]
    return median((other[1] - one[1]) / (other[0] - one[0]) for one, other in pairs)


def _soak(stack: Stack, files: FileServer, publishers: FeedServers) -> tuple[Samples, Counter[int]]:
    load = Load(stack, files, publishers)
    samples: Samples = defaultdict(list)
    answers: Counter[int] = Counter()
    began = time.monotonic()
    while (passed := time.monotonic() - began - WARM_SECONDS) < SECONDS:
        load.change()
        answers.update(one.visit.status for one in run(_step(stack, load, WARM_TIMES if passed < 0 else 1)))
        if passed >= 0:
            for name, taken in _taken(stack).items():
                samples[name].append((passed, taken))
    return samples, answers


async def _step(stack: Stack, load: "Load", times: int) -> list[Timed]:
    rate = RATE * times
    return await ask_steadily(stack.host, load.paths(rate * STEP_SECONDS), rate=rate, connections=CONNECTIONS * times)


def _taken(stack: Stack) -> Mapping[str, float]:
    listed = stack.supervisor().supervisor.getAllProcessInfo()
    assert isinstance(listed, list)
    return {str(one["name"]): memory(stack.pids(str(one["name"]))).own / MEGABYTE for one in listed}


class Load:
    """What is asked for in a step, and what changes between two: files to mirror, entries of feeds."""

    def __init__(self, stack: Stack, files: FileServer, publishers: FeedServers) -> None:
        self._stack, self._files, self._publishers = stack, files, publishers
        self._luck = random.Random(1)
        self._tile = painted_tile(stack)
        self._mirrored: list[str] = []
        token = stack.manage("create_token", "soak", "--mirror").strip()
        self._headers = {"Authorization": f"Bearer {token}"}
        urls = [f"{publishers.urls[number % len(publishers.urls)]}/{number}" for number in range(FEEDS)]
        outlines = "".join(f'<outline type="rss" text="{url}" xmlUrl="{url}"/>' for url in urls)
        listed = stack.directory / "soak.opml"
        listed.write_text(f'<opml version="2.0"><head><title>Soak</title></head><body>{outlines}</body></opml>')
        stack.manage("import_opml", str(listed))

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
