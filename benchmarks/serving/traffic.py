"""The cost of counting traffic: the line that nginx writes, and adding the lines up."""

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from project import nginx_config, preflight
from project.nginx_config import FrontConfig
from project.paths import DataDirectory, RuntimeDirectory
from project.preflight import FileLimits
from resources.tiles import tile_address
from resources.traffic import counter
from tests.nginx.conftest import RunningFront
from tests.nginx.origin import Answer
from tests.support.stack import free_port

from ..figures import Figure, Note, median

ROUNDS, ROUND_SECONDS = 15, 2
CONNECTIONS = 64
SHARE, DEARER = 0.9, 1.1
LINES = 200_000
TILE_BYTES = 4000
TILE = "/tiles/jams/12/2046/1361.png"


def measure() -> Iterator[Figure | Note]:
    """Requests a second for a hot tile with the log ÷ without it, side by side; lines counted a second."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise RuntimeError("wrk is missing: run ./setup.sh --dev, or install the package wrk")
    with _front(logs=True) as logging, _front(logs=False) as silent:
        fronts = [logging, silent]
        for front in fronts:
            _round(wrk, front)
        rounds = [_pair(wrk, fronts, first=place % 2) for place in range(ROUNDS)]
        size = logging.front.data.traffic.stat().st_size
    ratios = [logged.rate / unlogged.rate for logged, unlogged in rounds]
    dearer = [logged.cpu_seconds / unlogged.cpu_seconds for logged, unlogged in rounds]
    yield Note(f"ratios from {min(ratios):.2f} to {max(ratios):.2f}; {size / 1e6:.0f} MB of log were written")
    for name, side in (("with the log", 0), ("without", 1)):
        yield Figure(f"hot tile {name}, median", median([pair[side].rate for pair in rounds]), "req/s")
        yield Figure(
            f"nginx' CPU for it {name}, median", 1e6 * median([pair[side].cpu_seconds for pair in rounds]), "µs"
        )
    yield Figure("hot tile with the log ÷ without, median of pairs", median(ratios), at_least=SHARE)
    yield Figure("nginx' CPU for it with the log ÷ without, median of pairs", median(dearer), at_most=DEARER)
    for name, tiles in (("ten tiles", 10), ("as many tiles as lines", LINES)):
        yield Figure(f"lines of {name} added up", _tallied(tiles), "/s")


@contextmanager
def _front(*, logs: bool) -> Iterator[RunningFront]:
    """An nginx of one process that has a tile in its cache."""
    root = Path(tempfile.mkdtemp(prefix="tarry-bench-", dir="/tmp"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        data, runtime = DataDirectory(root / "data"), RuntimeDirectory(root / "run")
        preflight.make_directories(data, runtime)
        front = FrontConfig(
            data=data,
            runtime=runtime,
            listen=f"127.0.0.1:{free_port()}",
            allowed_hosts=["127.0.0.1"],
            public_scheme="http",
            retry_path="/retry_after",
            trusted_proxies=(),
            proxy_timeout_seconds=40,
            admin_timeout_seconds=120,
            upload_max_bytes=100_000,
            delivery_max_bytes=2_000_000,
            hot_max_bytes=10_000_000,
            backlog=1024,
            limits=FileLimits(files=1024, connections=512),
            small=True,
            is_root=os.getuid() == 0,
            traffic_log=data.traffic if logs else None,
            counted=("/tiles/",),
        )
        nginx_config.write_configuration(front)
        running = RunningFront(front)
        stack.callback(running.stop)
        body = random.Random(1).randbytes(TILE_BYTES)
        kept = {"Cache-Control": "public, max-age=1, s-maxage=3600", "Content-Type": "image/png"}
        running.main.answer = lambda _: Answer(200, kept, body)
        yield running


@dataclass(frozen=True, slots=True)
class Round:
    """Requests a second, and the CPU time that nginx took for each."""

    rate: float
    cpu_seconds: float


def _pair(wrk: str, fronts: list[RunningFront], *, first: int) -> tuple[Round, Round]:
    """Both, measured one after the other, sometimes in this order and sometimes in that."""
    rounds = {side: _round(wrk, fronts[side]) for side in (first, 1 - first)}
    return rounds[0], rounds[1]


def _round(wrk: str, front: RunningFront) -> Round:
    url = f"http://{front.front.listen}{TILE}"
    command = [wrk, "--threads", "1", "--connections", str(CONNECTIONS), "--duration", f"{ROUND_SECONDS}s", url]
    before = _cpu_seconds(front)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    took = _cpu_seconds(front) - before
    if "Non-2xx" in done.stdout:
        raise RuntimeError(f"not all requests were answered:\n{done.stdout}")
    words = {line.split()[0 if "Requests/sec" in line else 1]: line.split() for line in done.stdout.splitlines()[3:]}
    return Round(float(words["Requests/sec:"][1]), took / float(words["requests"][0]))


def _cpu_seconds(front: RunningFront) -> float:
    """CPU time of all its processes so far."""
    master = psutil.Process(int((front.front.runtime.nginx / "nginx.pid").read_text()))
    times = [process.cpu_times() for process in (master, *master.children())]
    return sum(each.user + each.system for each in times)


def _tallied(tiles: int) -> float:
    """Lines added up a second, of so many different tiles."""
    now, chance = time.time(), random.Random(1)
    text = b"\n".join(
        b"%.3f 200 HIT 4312 0.000 GET /tiles/jams/17/%d/1361.png" % (now - chance.random(), chance.randrange(tiles))
        for _ in range(LINES)
    )
    began = time.perf_counter()
    whole = counter.tally_lines(text, now, 3600, tile_address.parse_requested_tile)
    took = time.perf_counter() - began
    if whole.unreadable:
        raise RuntimeError(f"{whole.unreadable} lines could not be read")
    return LINES / took
