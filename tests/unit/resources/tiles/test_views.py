"""The change feed: small, exact for few changes, and honest about omissions."""

import json
import time
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from django.db import DatabaseError
from django.test import Client

from resources import tasks
from resources.tiles import grid, layers, publication, views
from resources.tiles import work as tiles_work
from resources.tiles.layers import LayerView
from resources.tiles.models import Layer
from resources.tiles.render import painter
from resources.tiles.staleness import LayerPart, TileMarks, TouchedTiles
from resources.tiles.tile_address import Tile
from retry import contents
from tests.conftest import RedisServers

from ..conftest import Load

LONDON = "10/511/340"
LOST = Tile("nothing", 0, 0, 0)


def paint(published: tuple[Any, ...]) -> None:
    _, work_key, token, arguments, _ = published
    tasks.paint_block(work_key, token, *arguments)


@pytest.mark.parametrize(
    "address",
    [
        "unknown/1/0/0.png",
        "jams/99/0/0.png",
        "jams/19/0/0.png",
        "jams/1/2/0.png",
        "jams/01/0/0.png",
        "jams/1/0/0.gif",
        "jams/1/0/0",
        "jams",
        "",
        "jams/1/0/0.png%0A",
        "jams/" + "1" * 3000 + "/0/0.png",
        "%00/1/0/0.png",
    ],
)
def test_what_is_not_there_is_404_and_displaces_what_caches_hold(client: Client, load: Load, address: str) -> None:
    load()
    response = client.get(f"/tiles/{address}")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "public, max-age=1"


@pytest.mark.parametrize(
    "address", [f"jams/{LONDON}.png", "jams/10/100/100.png", "unknown/1/0/0.png", "jams", "jams.json"]
)
def test_a_browser_of_another_origin_is_told_what_it_may_send_whatever_there_is(
    client: Client, load: Load, address: str
) -> None:
    load()
    response = client.options(f"/tiles/{address}")
    assert response.status_code == 204
    assert "If-None-Match" in response["Access-Control-Allow-Headers"]
    assert "GET" in response["Access-Control-Allow-Methods"]


@pytest.mark.parametrize("address", [f"/tiles/jams/{LONDON}.png", "/tiles/jams.json", "/staticmap", "/changes.json"])
@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_a_method_that_changes_things_is_refused_as_a_problem(load: Load, method: str, address: str) -> None:
    load()
    response = getattr(Client(enforce_csrf_checks=True), method)(address)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert response["Content-Type"] == "application/problem+json"
    assert response["Access-Control-Allow-Origin"] == "*"


def test_a_tile_outside_of_the_bounds_is_the_empty_one_without_any_look_up(client: Client, load: Load) -> None:
    load()
    response = client.get("/tiles/jams/10/100/100@2x.png")
    assert response.status_code == 200
    assert response.content == painter.encode_empty_tile(2, "png")
    assert response["Content-Type"] == "image/png"
    assert client.get("/tiles/jams/10/100/100@2x.png", headers={"If-None-Match": response["ETag"]}).status_code == 304


def test_a_cold_tile_is_deferred_painted_and_then_there(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    layer = load()
    response = client.get(f"/tiles/jams/{LONDON}.png")
    assert response.status_code == 302
    [(task, work_key, token, arguments, lane)] = published
    assert (task, lane) == ("resources.paint_block", "paint.now")
    assert work_key == f"paint:jams:{layer.version}:10:511:340:1"
    tasks.paint_block(work_key, token, *arguments)
    response = client.get(f"/tiles/jams/{LONDON}.png")
    assert response.status_code == 200
    assert response["Content-Type"] == "image/png"
    assert response.content == painter.paint_tile(tiles_work.load_scene("jams")[1], Tile("jams", 10, 511, 340))


def test_all_tiles_of_a_block_come_from_one_claim(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    layer = load(metatiles={"9": 4})
    neighbours = [f"/tiles/jams/12/{x}/{y}.png" for x in (2045, 2046) for y in (1361, 1362)]
    assert [client.get(address).status_code for address in neighbours] == [302] * 4
    assert len(published) == 1
    _, work_key, token, arguments, _ = published[0]
    assert work_key == f"paint:jams:{layer.version}:12:511:340:4"
    tasks.paint_block(work_key, token, *arguments)
    for address in neighbours:
        response = client.get(address)
        assert response.status_code == 200
        tile = Tile.parse(address.removeprefix("/tiles/")) or LOST
        assert response.content == painter.paint_tile(tiles_work.load_scene("jams")[1], tile)
    assert len(published) == 1


def test_a_refresh_of_one_tile_refreshes_its_block(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load(metatiles={"12": 4})
    one, other = "/tiles/jams/12/2045/1361.png", "/tiles/jams/12/2046/1362.png"
    client.get(one)
    paint(published[0])
    tiles_work.expire_layer("jams")
    assert client.get(one)["Cache-Status"].endswith("detail=begun")
    assert client.get(other)["Cache-Status"].endswith("detail=claimed")
    paint(published[1])
    for address in (one, other):
        assert client.get(address)["Server-Timing"].endswith("desc=hit")
    assert len(published) == 2


def test_a_tile_that_was_painted_after_its_part_expired_is_not_painted_again(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load()
    client.get(f"/tiles/jams/{LONDON}.png")
    paint(published[0])
    tiles_work.expire_layer("jams", LayerPart.of(grid.tile_bounds(10, 511, 340).as_list()))
    assert client.get(f"/tiles/jams/{LONDON}.png")["Server-Timing"].endswith("desc=stale")
    paint(published[1])
    assert client.get(f"/tiles/jams/{LONDON}.png")["Server-Timing"].endswith("desc=hit")
    assert len(published) == 2


def test_tiles_of_a_block_that_expire_apart_are_painted_by_one_claim(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load(metatiles={"12": 4})
    expired, gone = "/tiles/jams/12/2045/1361.png", "/tiles/jams/12/2047/1362.png"
    client.get(expired)
    paint(published[0])
    bounds = grid.tile_bounds(12, 2045, 1361)
    tiles_work.expire_layer("jams", LayerPart.of(bounds.as_list()))
    redis_servers.cache.client.delete(contents.content_name(Tile("jams", 12, 2047, 1362).content_key))
    assert client.get(gone).status_code == 302
    assert client.get(expired)["Cache-Status"].endswith("detail=claimed")
    assert len(published) == 2


def test_new_speeds_make_tiles_stale_not_absent(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load()
    client.get(f"/tiles/jams/{LONDON}.png")
    paint(published[0])
    before = client.get(f"/tiles/jams/{LONDON}.png")
    publication.store_speeds("jams", {"north": (1.0, 50.0)})
    stale = client.get(f"/tiles/jams/{LONDON}.png")
    assert (stale.status_code, stale.content) == (200, before.content)
    assert published[1][4] == "paint.refresh"
    paint(published[1])
    assert client.get(f"/tiles/jams/{LONDON}.png").content != before.content


def test_new_speeds_leave_tiles_fresh_that_do_not_show_them(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any]
) -> None:
    load()
    shown, elsewhere = (f"/tiles/jams/12/{place}.png" for place in ("2046/1361", "2049/1361"))
    for number, address in enumerate((shown, elsewhere)):
        client.get(address)
        paint(published[number])
    publication.store_speeds("jams", {"north": (1.0, 50.0), "south": (5.0, 50.0)})
    assert client.get(shown)["Server-Timing"].endswith("desc=stale")
    assert client.get(elsewhere)["Server-Timing"].endswith("desc=hit")


def test_a_layer_deleted_before_its_tile_is_painted_answers_404(
    client: Client, load: Load, redis_servers: RedisServers, published: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = load()
    client.get(f"/tiles/jams/{LONDON}.png")
    view = LayerView.of(layer)
    layer.delete()
    paint(published[0])
    monkeypatch.setattr(layers, "layer_snapshot", lambda slug: view)
    assert client.get(f"/tiles/jams/{LONDON}.png").status_code == 404


def test_the_database_failing_before_anything_was_read_is_503(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers.snapshot, "_read", Mock(side_effect=DatabaseError))
    for address in (f"/tiles/jams/{LONDON}.png", "/tiles/jams.json"):
        response = client.get(address)
        assert response.status_code == 503
        assert response["Retry-After"]


def test_tilejson_describes_the_layer(client: Client, load: Load) -> None:
    load(attribution="© All", note="Speeds are generated.", min_zoom=3, max_zoom=15)
    response = client.get("/tiles/jams.json")
    described = json.loads(response.content)
    assert described["tilejson"] == "3.0.0"
    assert described["tiles"] == ["http://testserver/tiles/jams/{z}/{x}/{y}.png"]
    assert described["bounds"] == [-0.3, 51.4, 0.2, 51.6]
    assert (described["minzoom"], described["maxzoom"], described["name"]) == (3, 15, "Jams")
    assert (described["attribution"], described["note"]) == ("© All", "Speeds are generated.")
    assert described["legend"].startswith("Free flow, ")
    assert described["classes"][0]["label"] == "Free flow"
    assert response["Access-Control-Allow-Origin"] == "*"
    assert response["Cache-Control"] == "public, max-age=1, s-maxage=1"


def test_tilejson_for_dense_screens_differs_in_its_tiles_alone(client: Client, load: Load) -> None:
    load()
    plain, dense = client.get("/tiles/jams.json").json(), client.get("/tiles/jams@2x.json").json()
    assert dense.pop("tiles") == ["http://testserver/tiles/jams/{z}/{x}/{y}@2x.png"]
    assert dense == {name: value for name, value in plain.items() if name != "tiles"}


def test_tilejson_is_answered_in_full_only_when_it_changed(client: Client, load: Load) -> None:
    layer = load()
    etag = client.get("/tiles/jams.json")["ETag"]
    unchanged = client.get("/tiles/jams.json", headers={"If-None-Match": etag})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    assert unchanged["Cache-Control"] == "public, max-age=1, s-maxage=1"
    assert unchanged["Access-Control-Allow-Origin"] == "*"
    other = client.get("/tiles/jams.json", headers={"If-Match": '"other"'})
    assert (other.status_code, other["Content-Type"]) == (412, "application/problem+json")
    assert other["Access-Control-Allow-Origin"] == "*"
    layer.save()
    assert client.get("/tiles/jams.json", headers={"If-None-Match": etag}).status_code == 200


@pytest.mark.parametrize("address", ["unknown.json", "unknown@2x.json"])
def test_tilejson_of_an_unknown_layer_is_404(client: Client, db: None, address: str) -> None:
    assert client.get(f"/tiles/{address}").status_code == 404


def test_tilejson_bounds_do_not_cross_the_antimeridian(client: Client, load: Load) -> None:
    load(bounds=[170, -20, -170, 20])
    assert json.loads(client.get("/tiles/jams.json").content)["bounds"] == [-180, -20, 180, 20]


def test_layers_that_are_switched_off_or_without_data_are_404(client: Client, load: Load) -> None:
    load(enabled=False)
    Layer.objects.create(slug="bare")
    for slug in ("jams", "bare"):
        assert client.get(f"/tiles/{slug}/{LONDON}.png").status_code == 404


def test_work_names_the_version_that_it_paints(load: Load) -> None:
    work = tiles_work.paint_work(LayerView.of(load()), Tile("jams", 10, 511, 340, 2, "webp"))
    assert work.arguments == ("jams", 10, 511, 340, 1, 2, "webp")
    assert (work.kind, work.lane, work.refresh_lane) == ("paint:jams:10:1", "paint.now", "paint.refresh")


NOW = 1_000_000.0


def at(seconds_ago: float) -> int:
    return int((NOW - seconds_ago) * 1_000_000)


def told(layer: Layer, *touched: tuple[float, TouchedTiles]) -> Any:
    """The change feed's part of a layer that changed so many seconds ago."""
    marks = TileMarks()
    for seconds_ago, tiles in touched:
        marks, _ = marks.with_touched(tiles, at(seconds_ago), 0)
    layer.data_version = at(5000)
    return views.build_change_feed([LayerView.of(layer, marks)], NOW)["layers"]["jams"]


def tiles(*places: tuple[int, int], zoom: int = 3) -> TouchedTiles:
    keys = grid.distinct_keys(np.array([grid.tile_key(x, y) for x, y in places]))
    return TouchedTiles((*[grid.no_keys()] * zoom, keys), keys)


def test_a_change_is_told_with_its_tiles(load: Load) -> None:
    found = told(load(), (7, tiles((2, 5), (3, 1))), (2, tiles((7, 7))))
    assert [change["version"] for change in found["changes"]] == [at(7), at(2)]
    assert found["changes"][0] == {
        "version": at(7),
        "deepest": 3,
        "zooms": {"3": [3, 1, 2, 5]},
        "below": [3, 1, 2, 5],
    }
    assert at(40) < found["since"] < at(7)


def test_what_changed_long_ago_is_not_told_any_more(load: Load) -> None:
    found = told(load(), (40, tiles((2, 5))), (2, tiles((7, 7))))
    assert [change["version"] for change in found["changes"]] == [at(2)]
    assert found["since"] > at(40)


@pytest.mark.parametrize("count", [8, 9, 20])
def test_of_many_changes_some_are_told_as_one(load: Load, count: int) -> None:
    found = told(load(), *((25 - number, tiles((number % 8, number // 8))) for number in range(count)))
    assert count / 4 <= len(found["changes"]) <= views.MAX_FEED_CHANGES
    assert found["changes"][-1]["version"] == at(25 - count + 1)
    assert sum(len(change["zooms"]["3"]) for change in found["changes"]) == 2 * count
    assert found["since"] < at(25)


def test_a_large_change_is_told_more_coarsely(load: Load) -> None:
    every = TouchedTiles(tuple(np.arange(4**zoom) for zoom in range(9)), np.arange(4**8))
    found = told(load(), (3, every))
    [change] = found["changes"]
    assert len(json.dumps(found)) < 6000
    assert len(change["below"]) == 2 * 4 ** change["deepest"]


def test_other_changes_have_pages_look_at_all_of_a_layer(load: Load) -> None:
    layer = load()
    found = views.build_change_feed([LayerView.of(layer)], time.time())["layers"]["jams"]
    assert found == {"version": layer.version, "since": layer.version, "changes": []}
    expired = tiles_work.expire_layer("jams", LayerPart(min_zoom=3, max_zoom=5))
    found = views.build_change_feed([LayerView.of(expired)], time.time())["layers"]["jams"]
    assert found["since"] == found["version"] > layer.version


def test_the_front_may_keep_it_for_a_second_and_renew_it_without_a_crowd(client: Client, load: Load) -> None:
    load()
    publication.store_speeds("jams", {"north": (1.0, 50.0)})
    answer = client.get("/changes.json")
    assert answer["Cache-Control"] == "public, max-age=1, s-maxage=1, stale-while-revalidate=10"
    [change] = answer.json()["layers"]["jams"]["changes"]
    assert change["version"] == answer.json()["layers"]["jams"]["version"]
    assert client.get("/changes.json", headers={"If-None-Match": answer["ETag"]}).status_code == 304
