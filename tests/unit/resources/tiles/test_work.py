"""Work of tiles: painting, and the refresh of popular tiles that a change has touched."""

from typing import Any

import pytest

from resources import tasks
from resources.tiles import publication, work
from resources.tiles.models import Layer
from resources.tiles.tile_address import Metatile
from retry import popularity, stores
from tests.conftest import RedisServers
from tests.support import geojson
from tests.unit.resources.conftest import POINTS, Load

pytestmark = pytest.mark.usefixtures("redis_servers")
SHOWN, HIDDEN, SELDOM = "tile:jams:12:2046:1361:png", "tile:jams:12:2049:1361:png", "tile:jams:12:2047:1361:png"


@pytest.fixture
def changed(load: Load) -> int:
    """The version of a change of the layer's line in the north; some of its tiles are popular."""
    load()
    weights = {SHOWN: 40.0, HIDDEN: 50.0, SELDOM: 2.0, "tile:other:12:2046:1361:png": 60.0}
    assert stores.execute_call(popularity.count_call("here", b"", b"", [], weights)) == 1
    publication.store_speeds("jams", {"north": (1.0, 50.0), "south": (5.0, 50.0)})
    return Layer.objects.get().version


def test_only_popular_tiles_are_refreshed_and_only_those_that_were_touched(changed: int, published: list[Any]) -> None:
    assert work.refresh_popular_tiles("jams", changed) == 1
    [(_, work_key, _, arguments, lane)] = published
    assert work_key.startswith(f"paint:jams:{changed}:12:2046:1361")
    assert lane == "paint.refresh"
    tasks.paint_block(*published[0][1:3], *arguments)
    assert work.refresh_popular_tiles("jams", changed) == 0
    assert len(published) == 1


def test_earlier_changes_are_left_to_requests(changed: int, published: list[Any]) -> None:
    assert work.refresh_popular_tiles("jams", changed + 1) == 0
    assert work.refresh_popular_tiles("unknown", changed) == 0
    assert published == []


def test_changes_in_quick_succession_share_one_turn(changed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("resources.tiles.work.lanes.send_task", lambda *given: sent.append(given[:2]))
    work.refresh_soon("jams", 1)
    work.refresh_soon("jams", 2)
    work.refresh_soon("other", 3)
    assert sent == [(work.REFRESH_TASK, ["jams", 1]), (work.REFRESH_TASK, ["other", 3])]
    work.refresh_popular_tiles("jams", 1)
    work.refresh_soon("jams", 4)
    assert sent[-1] == (work.REFRESH_TASK, ["jams", 4])


def test_a_stopped_site_is_given_layers_quietly(
    redis_servers: RedisServers, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    redis_servers.state.stop()
    load()
    work.refresh_soon("jams", 1)
    assert "tarry.layers" not in {each.name for each in caplog.records}


def test_changes_need_no_redis(redis_servers: RedisServers, impatient: None, caplog: pytest.LogCaptureFixture) -> None:
    redis_servers.state.stop()
    work.refresh_soon("jams", 1)
    tasks.refresh_popular("jams", 1)
    assert "popular tiles wait to be asked for" in caplog.messages


def test_a_worker_paints_points(load: Load) -> None:
    load("quakes", "points", POINTS, style={"mode": "dots"})
    [prepared] = work.paint_metatile(Metatile("quakes", 5, 15, 10, 1)).values()
    assert geojson.pixels(prepared.body)[..., 3].any()
