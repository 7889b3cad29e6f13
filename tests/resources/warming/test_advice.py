import time

import pytest
from django.test import Client

from resources.warming.advice import ZoomCost, advise
from resources.warming.estimating import Estimate
from retry import connections, periods, popularity
from retry.popularity import Hit
from tests.resources.conftest import Load


def zoom(number: int, seconds: float, share: float | None, requests: int = 0, hit: float | None = None) -> ZoomCost:
    rest = None if hit is None else 100 - hit
    return ZoomCost(number, Estimate(4**number, 4**number, seconds, 1000.0), share, requests, hit, rest)


def test_zooms_that_have_most_of_the_demand_are_to_be_prepared_entirely() -> None:
    [first, rest] = advise("jams", [zoom(0, 1, 50), zoom(1, 2, 42), zoom(2, 3, 5), zoom(3, 90_000, 3)])
    assert first == (
        "Zoom 0–1 of this layer: 5 tiles, 2.0 KB, 3.0 s to refresh entirely, 92 % of requests. "
        "manage.py prewarm --layer jams --zoom 0-1 prepares all of it."
    )
    assert rest.startswith("Zoom 2–3 of this layer: 80 tiles")
    assert rest.endswith("with --popular.")


def test_what_takes_too_long_is_left_to_the_popular() -> None:
    [said] = advise("jams", [zoom(14, 4000, 100)])
    assert "--popular" in said


def test_a_zoom_where_many_wait_is_named() -> None:
    said = list(advise("jams", [zoom(0, 1, 100, requests=200, hit=60.0)]))
    assert said[-1] == "At zoom 0 nginx alone answers 60 % of 200 requests, 40 % had to wait."


def test_nothing_is_advised_from_nothing() -> None:
    [said] = advise("jams", [zoom(0, 1, None)])
    assert "Nothing is known yet" in said


@pytest.mark.usefixtures("redis_servers")
def test_the_layers_page_in_the_admin_shows_what_it_costs_and_where_it_is_popular(
    admin_client: Client, load: Load
) -> None:
    layer = load(max_zoom=12)
    period = periods.period(time.time(), time.time())
    found = [
        Hit("tile/parts", "jams/9", "hot", True, period, 1500),
        Hit("tile/parts", "jams/9", "waiting", True, period, 500),
    ]
    wishes = {"tile:jams:9:255:170:png": 90.0, "tile:jams:12:2046:1361:png": 30.0}
    assert connections.execute(popularity.counting("here", b"", b"", found, wishes)) == 1
    shown = admin_client.get(f"/admin/resources/layer/{layer.pk}/change/").content.decode()
    assert "75.0 %</td>" in shown
    assert "<td>2,000</td>" in shown
    assert "resources/fetching.css" in shown
    assert "25.0 %</td>" in shown
    assert "manage.py prewarm --layer jams --zoom 0-12 prepares all of it" in shown
    assert shown.count("° north, ") == 1
    assert "wider views, up to zoom" in shown
