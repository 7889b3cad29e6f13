"""Layers that change or go: the front's answers for their tiles, and the delay."""

import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from ..support import clock
from ..support.crowd import Crowd, Visit
from ..support.layers import colour_of, load_line, write_speeds
from ..support.stack import Stack

HOT_SECONDS = 5
DELETE = "from resources.models import Layer; Layer.objects.get(slug={!r}).delete()"


@pytest.fixture
def address(stack: Stack, slug: str, tmp_path: Path) -> str:
    """A tile of a layer that was never requested."""
    return load_line(stack, slug, tmp_path)


def seconds_until(crowd: Crowd, address: str, shows: Callable[[Visit], bool]) -> float:
    """The seconds for which a client that asks again and again sees the old tile. It is never sent to wait."""
    began = clock.seconds()
    while True:
        visit = crowd.visit(address)
        assert len(visit.answers) == 1
        if shows(visit):
            return clock.seconds() - began
        if clock.seconds() - began > 3 * HOT_SECONDS:
            raise AssertionError("it never shows")
        time.sleep(0.05)


def test_a_cold_tile_comes_after_two_redirects_and_shows_new_speeds_within_the_hot_window(
    stack: Stack, crowd: Crowd, slug: str, address: str, tmp_path: Path
) -> None:
    visit = crowd.visit(address)
    assert visit.statuses == [302, 302, 200]
    assert visit.answers[-1].headers["Content-Type"] == "image/png"
    assert Image.open(BytesIO(visit.body)).size == (256, 256)
    assert colour_of(crowd.visit(address).body) == colour_of(visit.body) == "green"
    stack.change_layers("load_speeds", slug, str(write_speeds(tmp_path, "dark_red")))
    assert seconds_until(crowd, address, lambda visit: colour_of(visit.body) == "dark_red") <= HOT_SECONDS


def test_a_deleted_layer_is_gone_after_the_hot_window_for_clients_that_poll_and_for_one_that_asks_once(
    stack: Stack, crowd: Crowd, slug: str, address: str
) -> None:
    other = address.replace("/1/0/0", "/1/1/0")
    for _ in range(2):
        assert {crowd.visit(one).status for one in (address, other)} == {200}
    stack.change_layers("shell", "-c", DELETE.format(slug))
    until = time.monotonic() + HOT_SECONDS
    assert seconds_until(crowd, address, lambda visit: visit.status == 404) <= HOT_SECONDS
    time.sleep(max(0, until - time.monotonic()))
    assert crowd.visit(other).status == 404


def test_a_layer_that_does_not_exist_is_not_waited_for(crowd: Crowd) -> None:
    for address in ("/tiles/nothing/1/0/0.png", "/tiles/nothing/1/9/9.png", "/tiles/nothing/99/0/0.png"):
        assert crowd.visit(address).statuses == [404]
