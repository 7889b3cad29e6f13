"""Three fetchers, one of which is killed again and again, judged by what the origins saw."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.flows.crowd import Crowd
from tests.flows.stack import ROOT, Stack, eventually
from tests.hostile.secrets import NETWORK

IN_FLIGHT = 2
LIMITS: list[dict[str, float]] = [
    {"rate": 40, "latency": 0.02},
    {"rate": 20, "latency": 0.1, "retry_after": 1},
    {"rate": 8, "latency": 0.05, "retry_after": 2},
    {"rate": 100, "latency": 0.3, "most_at_once": 2},
]
PAGES = 25


@pytest.fixture
def origins(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The port of origins with these limits, and their log."""
    log = tmp_path / "asked"
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tests.hostile.secrets", str(log), "120"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    process.stdin.write("".join(json.dumps(limits) + "\n" for limits in LIMITS) + "\n")
    process.stdin.flush()
    yield process.stdout.readline().strip(), log
    process.kill()
    process.communicate()


@contextmanager
def another_fetcher(stack: Stack) -> Iterator["subprocess.Popen[bytes]"]:
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "manage.py", "fetch"]
    with (stack.data / "logs" / "more-fetchers.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=stack.environment, stdout=log, stderr=log)
    yield process
    process.kill()
    process.wait()


def asked(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def served(log: Path) -> int:
    return len({(one["domain"], one["path"]) for one in asked(log) if one["served"]})


def test_killed_fetchers_lose_nothing_and_stay_polite(stack: Stack, crowd: Crowd, origins: tuple[str, Path]) -> None:
    port, log = origins
    urls = [f"http://{NETWORK}{domain}:{port}/{page}" for page in range(PAGES) for domain in range(1, len(LIMITS) + 1)]
    kills = 0
    with ExitStack() as fetchers:
        for _ in range(2):
            fetchers.enter_context(another_fetcher(stack))
        addresses = [f"/fetched/?url={quote(url, safe='')}" for url in urls]
        waiting = crowd.send(addresses, patient=True)
        for goal in (0.2, 0.4, 0.6):
            eventually(lambda goal=goal: served(log) >= goal * len(urls), 40, "pages are served")  # type: ignore[misc]
            os.kill(stack.pid("fetch"), signal.SIGKILL)
            kills += 1
        visits = waiting.result(60)
    assert all(visit.status == 200 or visit.is_honest_refusal for visit in visits)
    assert all(visit.body == b"page" for visit in crowd.insist(addresses))
    seen = asked(log)
    assert not [one for one in seen if one["early"]]
    times_served = Counter((one["domain"], one["path"]) for one in seen if one["served"])
    twice = [page for page, times in times_served.items() if times > 1]
    assert len(twice) <= kills * IN_FLIGHT * len(LIMITS)
    # A killed fetcher's requests go on at the origin for a moment, beside those of the others.
    assert max(one["at_once"] for one in seen) <= 2 * IN_FLIGHT
