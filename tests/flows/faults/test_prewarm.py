"""Pre-warming on the whole site: nginx has the prepared content, runs share the work, and kills leave nothing wrong."""

import os
import re
import signal
from pathlib import Path

import pytest
import requests

from tests.support.layers import load_line
from tests.support.stack import Stack, eventually

pytestmark = pytest.mark.no_database

CALM, ZOOMS = "calm", "0-6"
CONTENT = "retry:content:tile:{}:*"


@pytest.fixture(scope="module")
def two_runs(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The output of two runs that were started together, of a layer without other requests."""
    load_line(stack, CALM, tmp_path_factory.mktemp(CALM))
    command = ("prewarm", "--layer", CALM, "--zoom", ZOOMS)
    with stack.start_command(*command) as other:
        return [stack.manage(*command), other.communicate()[0]]


@pytest.fixture
def calm(two_runs: list[str]) -> str:
    return CALM


def test_two_runs_at_once_paint_no_tile_twice(stack: Stack, two_runs: list[str]) -> None:
    painted = [re.search(r"prepared \((\d+) tiles\).* 0 failed", said) for said in two_runs]
    assert sum(int(found[1]) for found in painted if found) == len(_tiles(stack, CALM))


def test_what_was_prepared_comes_from_nginx_alone(stack: Stack, calm: str) -> None:
    stack.stop("main")
    try:
        for tile in ("0/0/0", "6/31/31"):
            answer = requests.get(f"{stack.base_url}/tiles/{calm}/{tile}.png", timeout=10)
            assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png")
            assert "nginx; hit" in answer.headers["Cache-Status"]
    finally:
        stack.begin("main")


def test_a_run_goes_on_after_kills_of_it_and_of_painters(stack: Stack, calm: str, tmp_path: Path) -> None:
    load_line(stack, "warm", tmp_path)
    command = ("prewarm", "--layer", "warm", "--zoom", ZOOMS)
    painters = stack.pids("paint-warm")
    with stack.start_command(*command, "--rate", "20") as run:
        eventually(lambda: len(_tiles(stack, "warm")) > 5, 60, "some tiles are there")
        for pid in painters:
            os.kill(pid, signal.SIGKILL)
        run.kill()
    assert len(_tiles(stack, "warm")) < len(_tiles(stack, calm))
    assert "0 failed" in stack.manage(*command, "--continue")
    tiles = _tiles(stack, calm)
    assert _tiles(stack, "warm") == tiles
    with requests.Session() as session:
        for tile in tiles:
            warm, other = (session.get(f"{stack.base_url}/tiles/{slug}/{tile}", timeout=10) for slug in ("warm", calm))
            assert warm.content == other.content
            assert warm.history == []


def _tiles(stack: Stack, slug: str) -> set[str]:
    """The addresses, within the layer, of those that are in the cache."""
    keys = (key.decode().split(":") for key in stack.cache.scan_iter(CONTENT.format(slug)))
    return {f"{z}/{x}/{y}.{form}" for *_, z, x, y, form in keys}
