"""Popular tiles that a change has touched are refreshed before anybody asks; all others are left alone."""

from typing import Any

import pytest

from resources import tasks
from resources.models import Layer
from resources.tiles import refreshing
from resources.tiles.keeping import storing
from retry import connections, lanes, popularity
from tests.conftest import RedisServers

from .conftest import Load

pytestmark = pytest.mark.usefixtures("redis_servers")
SHOWN, HIDDEN, SELDOM = "tile:jams:12:2046:1361:png", "tile:jams:12:2049:1361:png", "tile:jams:12:2047:1361:png"


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(lanes, "publish", lambda *given: found.append(given))
    return found


@pytest.fixture
def changed(load: Load) -> int:
    """The version of a change of the layer's line in the north; some of its tiles are popular."""
    load()
    wishes = {SHOWN: 40.0, HIDDEN: 50.0, SELDOM: 2.0, "tile:other:12:2046:1361:png": 60.0}
    assert connections.execute(popularity.counting("here", b"", b"", [], wishes)) == 1
    storing.store_speeds("jams", {"north": (1.0, 50.0), "south": (5.0, 50.0)})
    return Layer.objects.get().version


def test_only_popular_tiles_are_refreshed_and_only_those_that_were_touched(changed: int, published: list[Any]) -> None:
    assert refreshing.refresh_popular("jams", changed) == 1
    [(_, work_key, _, arguments, lane)] = published
    assert work_key.startswith(f"paint:jams:{changed}:12:2046:1361")
    assert lane == "paint.refresh"
    tasks.paint_block(*published[0][1:3], *arguments)
    assert refreshing.refresh_popular("jams", changed) == 0
    assert len(published) == 1


def test_what_changed_before_is_left_to_whoever_asks(changed: int, published: list[Any]) -> None:
    assert refreshing.refresh_popular("jams", changed + 1) == 0
    assert refreshing.refresh_popular("unknown", changed) == 0
    assert published == []


def test_changes_in_quick_succession_share_one_turn(changed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []
    monkeypatch.setattr("resources.tiles.refreshing.current_app.send_task", lambda *given, **_: sent.append(given))
    refreshing.refresh_soon("jams", 1)
    refreshing.refresh_soon("jams", 2)
    refreshing.refresh_soon("other", 3)
    assert sent == [(refreshing.TASK, ["jams", 1]), (refreshing.TASK, ["other", 3])]
    refreshing.refresh_popular("jams", 1)
    refreshing.refresh_soon("jams", 4)
    assert sent[-1] == (refreshing.TASK, ["jams", 4])


def test_a_site_that_is_not_running_is_given_its_layers_quietly(
    redis_servers: RedisServers, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    redis_servers.state.stop()
    load()
    refreshing.refresh_soon("jams", 1)
    assert "tarry.layers" not in {each.name for each in caplog.records}


def test_a_redis_server_that_is_away_fails_no_change(
    redis_servers: RedisServers, caplog: pytest.LogCaptureFixture
) -> None:
    redis_servers.state.stop()
    refreshing.refresh_soon("jams", 1)
    tasks.refresh_popular("jams", 1)
    assert "popular tiles wait to be asked for" in caplog.messages
