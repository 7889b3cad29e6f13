"""The demand for a layer, and its place on the layer's page in the admin."""

import time
from typing import Any

import pytest
from django.test import Client

from resources.tiles import demand
from retry import popularity, stores
from retry.popularity import PeriodHits

from ..conftest import Load

NOW = 1_795_262_400.0
pytestmark = pytest.mark.usefixtures("redis_servers")


def count(answer: str, number: int, *, age: float = 0, now: float = NOW, **weights: float) -> None:
    hit = PeriodHits("tile", "jams", answer, True, popularity.period_number(now - age, now), number)
    keys = {key.replace("_", ":"): weight for key, weight in weights.items()}
    assert stores.execute_call(popularity.count_call("here", b"", b"", [hit], keys)) == 1


def test_requests_are_told_by_time_with_the_share_that_nginx_answered() -> None:
    count("hot", 3)
    count("waiting", 1)
    count("hot", 96, age=7200)
    count("busy", 2, age=200_000)
    ever, hour, day = demand.load_demand("jams", NOW).spans
    assert (ever.requests, ever.waiting, ever.failed) == (102, 1, 2)
    assert (hour.requests, hour.hot_percent) == (4, 75)
    assert (day.requests, day.hot_percent) == (100, 99)


def test_the_most_popular_tiles_of_the_layer_come_first_and_are_summed_by_zoom() -> None:
    count("hot", 1, tile_jams_1_0_0_png=5, tile_jams_2_0_0_png=3, tile_jams_2_1_0_png=4, tile_other_1_0_0_png=9)
    found = demand.load_demand("jams", NOW)
    assert [popular.address for popular in found.tiles] == [
        "/tiles/jams/1/0/0.png",
        "/tiles/jams/2/1/0.png",
        "/tiles/jams/2/0/0.png",
    ]
    assert found.tiles[0].place.startswith("#1/42.5")
    assert [(zoom.level, zoom.tiles, round(zoom.requests)) for zoom in found.zooms] == [(1, 1, 5), (2, 2, 7)]


def test_a_layer_without_requests_has_no_share() -> None:
    found = demand.load_demand("jams", NOW)
    assert [span.hot_percent for span in found.spans] == [None] * 3
    assert not found.tiles
    assert not found.zooms


def page(client: Client, load: Load) -> str:
    return client.get(f"/admin/resources/layer/{load().pk}/change/").content.decode()


def test_the_layers_page_in_the_admin_shows_it(admin_client: Client, load: Load) -> None:
    count("hot", 1234, now=time.time(), tile_jams_1_0_0_png=5)
    shown = page(admin_client, load)
    assert "<td>1,234</td>" in shown
    assert '<a href="/tiles/jams/1/0/0.png">' in shown
    assert "100.0 %" in shown


@pytest.mark.parametrize(
    ("change", "said"),
    [({"REDIS_URL": "unix:///nowhere/state.sock"}, "Redis does not answer"), ({"OBSERVE": False}, "OBSERVE=0")],
)
def test_a_page_without_demand_is_shown(
    admin_client: Client, load: Load, settings: Any, change: dict[str, object], said: str
) -> None:
    for name, value in change.items():
        setattr(settings, name, value)
    assert said in page(admin_client, load)
