"""Tiles of another server: fetched once for everybody, kept, fetched anew, and bridged while that server fails."""

import re
from collections.abc import Iterator
from itertools import pairwise
from statistics import mean, median

import pytest

from ..support import tile_server
from ..support.browser import WIDE, Visit
from ..support.crowd import Crowd
from ..support.stack import Stack, eventually
from ..support.tile_server import TileServer

pytestmark = pytest.mark.no_database

BASE_LAYERS = {"countries", "land", "london"}


@pytest.fixture(scope="module", autouse=True)
def _no_layers_left_behind(stack: Stack) -> Iterator[None]:
    """Their servers are gone: on another test's map they would never fill."""
    yield
    stack.change_layers(
        "shell", "-c", "from resources.models import Layer; Layer.objects.filter(kind='upstream').delete()"
    )


@pytest.fixture
def origin() -> Iterator[TileServer]:
    with tile_server.running() as server:
        yield server


@pytest.fixture
def layer(stack: Stack, origin: TileServer, name: str, crowd: Crowd) -> str:
    """The slug of a layer of that server's tiles, known to main."""
    return load(stack, crowd, name[:12], origin)


def load(stack: Stack, crowd: Crowd, slug: str, origin: TileServer, *options: str) -> str:
    stack.change_layers("load_layer", slug, "--upstream", origin.template, *options)
    eventually(lambda: crowd.visit(f"/tiles/{slug}.json").status == 200, 5, "main knows the layer")
    return slug


def test_a_cold_tile_is_fetched_once_and_comes_by_two_redirects(crowd: Crowd, origin: TileServer, layer: str) -> None:
    origin.gate.clear()
    sent = crowd.send([f"/tiles/{layer}/3/1/2.png"] * 50)
    eventually(lambda: [len(visit.answers) for visit in crowd.visits[-50:]] == [1] * 50, 20, "all of them wait")
    origin.gate.set()
    visits = sent.result(30)
    assert {visit.body for visit in visits} == {origin.tile}
    assert {tuple(visit.statuses) for visit in visits} == {(302, 302, 200)}
    assert origin.asked == ["/3/1/2.png"]
    assert "s-maxage" in visits[0].answers[-1].headers["Cache-Control"]


@pytest.fixture
def bold_layer(stack: Stack, crowd: Crowd, origin: TileServer, layer: str) -> str:
    """A layer whose server has long been quick: requests without a gap, many at a time, are what was learnt of it."""
    origin.seconds = 0
    assert crowd.visit(f"/tiles/{layer}/1/0/0.png").status == 200
    domain = f"fetch:{{0}}:domain:{origin.url.removeprefix('http://')}"
    eventually(lambda: stack.state.hget(domain, "in_flight") == b"0", 20, "the frontier knows it")
    stack.state.hset(domain, mapping={"delay": 1, "mean": 1, "cap": 64})
    origin.times.clear()
    return layer


def test_another_server_gets_ten_requests_a_second_however_quick_it_was(
    crowd: Crowd, origin: TileServer, bold_layer: str
) -> None:
    visits = crowd.send([f"/tiles/{bold_layer}/7/{number}/1.png" for number in range(31)]).result(60)
    assert [visit.status for visit in visits] == [200] * 31
    assert median(gaps(origin)) >= 0.07  # of 0.1, on a busy machine


def test_another_server_that_becomes_slow_is_asked_slowly_four_times_at_once_at_the_most(
    crowd: Crowd, origin: TileServer, bold_layer: str
) -> None:
    origin.seconds = 1
    visits = crowd.send([f"/tiles/{bold_layer}/7/{number}/1.png" for number in range(24)]).result(60)
    assert [visit.status for visit in visits] == [200] * 24
    assert origin.peak <= 4
    assert mean(gaps(origin)[-12:]) >= 0.7 * origin.seconds / 4


def gaps(origin: TileServer) -> list[float]:
    """The seconds between its requests."""
    return [later - earlier for earlier, later in pairwise(origin.times)]


def test_a_tile_that_a_client_of_many_requested_first_comes_in_the_turn_of_the_next_client(
    stack: Stack, crowd: Crowd, origin: TileServer, layer: str
) -> None:
    origin.gate.clear()
    tiles = [f"/{layer}/5/{number}/1.png" for number in range(12)]
    before, flood = len(crowd.visits), []
    for tile in tiles:
        flood.append(crowd.send([f"/tiles{tile}"]))
        wanted = [1] * len(flood)
        eventually(lambda: [len(visit.answers) for visit in crowd.visits[before:]] == wanted, 20, "it is claimed")  # noqa: B023  called in this turn alone
    with Crowd(stack.base_url, "127.0.0.10") as other:
        sent = other.send([f"/tiles{tiles[-1]}"])
        eventually(lambda: [len(visit.answers) for visit in other.visits] == [1], 20, "the other client waits")
        origin.gate.set()
        assert {visit.status for each in (sent, *flood) for visit in each.result(60)} == {200}
    assert origin.asked.index("/5/11/1.png") < 6


def test_an_own_server_gets_as_many_requests_at_a_time_as_its_layer_says(
    stack: Stack, crowd: Crowd, origin: TileServer, name: str
) -> None:
    slug = load(stack, crowd, name[:12], origin, "--in-flight", "16")
    origin.gate.clear()
    sent = crowd.send([f"/tiles/{slug}/7/{number}/1.png" for number in range(100)])
    eventually(lambda: origin.at_once == 16, 20, "it has so many in flight")
    origin.gate.set()
    assert [visit.status for visit in sent.result(60)] == [200] * 100
    assert (origin.peak, len(origin.asked)) == (16, 100)


def test_a_tile_that_its_server_lacks_is_empty_and_remembered(crowd: Crowd, origin: TileServer, layer: str) -> None:
    origin.status = 404
    first, second = crowd.visit(f"/tiles/{layer}/3/1/2.png"), crowd.visit(f"/tiles/{layer}/3/1/2.png?again")
    assert first.status == second.status == 200
    assert first.body == second.body != origin.tile
    assert len(origin.asked) == 1


def test_a_tile_past_its_time_is_asked_for_by_its_validator(
    stack: Stack, crowd: Crowd, origin: TileServer, name: str
) -> None:
    origin.headers = {"Cache-Control": "max-age=1"}
    slug = load(stack, crowd, name[:12], origin, "--fresh", "1")
    tile = f"/tiles/{slug}/3/1/2.png"
    assert crowd.visit(tile).body == origin.tile

    def is_confirmed() -> bool:
        assert crowd.visit(tile).body == origin.tile
        return origin.conditional >= 1

    eventually(is_confirmed, 20, "the server has confirmed it")
    origin.red = 200
    eventually(lambda: crowd.visit(tile).body == origin.tile, 20, "the new tile shows")


def test_stale_tiles_bridge_failures_of_their_server(stack: Stack, crowd: Crowd, origin: TileServer, name: str) -> None:
    origin.headers = {"Cache-Control": "max-age=1"}
    slug = load(stack, crowd, name[:12], origin, "--fresh", "1")
    tile, cold = f"/tiles/{slug}/3/1/2.png", f"/tiles/{slug}/3/1/3.png"
    good = origin.tile
    assert crowd.visit(tile).body == good
    origin.status = 403
    visit = crowd.visit(cold)
    assert visit.status == 502
    assert int(visit.answers[-1].headers["Retry-After"]) >= 1
    asked = len(origin.asked)

    def is_tried() -> bool:
        seen = crowd.visit(tile)
        assert (seen.status, seen.body) == (200, good)
        return len(origin.asked) > asked

    eventually(is_tried, 20, "the server is asked again, and fails")


def test_a_page_instead_of_a_tile_is_told(crowd: Crowd, origin: TileServer, layer: str) -> None:
    origin.page = b"<html>Sign in</html>"
    visit = crowd.visit(f"/tiles/{layer}/4/1/2.png")
    assert visit.status == 502
    assert b"image" in visit.body


def test_what_is_painted_soon_is_shown_while_slow_tiles_are_waited_for(
    layer: str, crowd: Crowd, site: str, origin: TileServer, desktop: Visit
) -> None:
    shown = re.findall(r'data-layer="([^"]+)"', crowd.visit("/").body.decode())
    others = ",".join(slug for slug in shown if slug not in {layer, *BASE_LAYERS})
    origin.gate.clear()
    desktop.page.set_viewport_size(WIDE)
    desktop.page.goto(f"{site}/#14/51.300/0.300/without:{others}")  # nothing of it was in sight before
    desktop.wait_for_tiles("base", at_least=6)
    assert desktop.painted_tiles("overlays") == 0
    origin.gate.set()
    desktop.wait_for_tiles("overlays", at_least=1)
