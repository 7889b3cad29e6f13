"""Tiles, TileJSON and the change feed over HTTP, of painted layers and of another server's tiles."""

import json
import time
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from django.http import HttpResponse
from django.test import Client

from resources import tasks
from resources.tiles import grid, grid_arrays, layers, publication, views, work
from resources.tiles import work as tiles_work
from resources.tiles.layers import LayerView
from resources.tiles.models import Layer
from resources.tiles.render import painter
from resources.tiles.staleness import LayerPart
from resources.tiles.tile_address import Tile
from resources.tiles.tile_marks import TileMarks, TouchedTiles
from retry import contents
from retry.contents import Prepared
from tests.conftest import RedisServers
from tests.support.geojson import collection, point
from tests.unit.resources.conftest import Load, LoadUpstream, Store, image

from ..conftest import PLAIN

pytestmark = pytest.mark.usefixtures("redis_servers")
LONDON = "10/511/340"
LOST = Tile("nothing", 0, 0, 0)


def paint(published: tuple[Any, ...]) -> None:
    _, work_key, token, arguments, _ = published
    tasks.paint_block(work_key, token, *arguments)


@pytest.mark.parametrize(
    "address",
    ["unknown/1/0/0.png", "jams/19/0/0.png", "jams/1/0/0.gif", "", "jams/" + "1" * 3000 + "/0/0.png", "%00/1/0/0.png"],
)
def test_missing_tiles_are_404_and_displace_cached_ones(client: Client, load: Load, address: str) -> None:
    load()
    response = client.get(f"/tiles/{address}")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "public, max-age=1"


@pytest.mark.parametrize(
    "address", [f"jams/{LONDON}.png", "jams/10/100/100.png", "unknown/1/0/0.png", "jams", "jams.json"]
)
def test_browsers_of_other_origins_learn_the_allowed_fields_anywhere(client: Client, load: Load, address: str) -> None:
    load()
    response = client.options(f"/tiles/{address}")
    assert response.status_code == 204
    assert "If-None-Match" in response["Access-Control-Allow-Headers"]
    assert "GET" in response["Access-Control-Allow-Methods"]


def test_a_tile_outside_of_the_bounds_is_the_empty_one_without_any_look_up(client: Client, load: Load) -> None:
    load()
    response = client.get("/tiles/jams/10/100/100@2x.png")
    assert response.status_code == 200
    assert response.content == painter.encode_empty_tile(2, "png")
    assert response["Content-Type"] == "image/png"
    assert client.get("/tiles/jams/10/100/100@2x.png", headers={"If-None-Match": response["ETag"]}).status_code == 304


def test_a_cold_tile_is_deferred_painted_and_then_there(client: Client, load: Load, published: list[Any]) -> None:
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


def test_all_tiles_of_a_block_come_from_one_claim(client: Client, load: Load, published: list[Any]) -> None:
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


def test_a_refresh_of_one_tile_refreshes_its_block(client: Client, load: Load, published: list[Any]) -> None:
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


def test_parts_of_a_block_share_one_claim(
    client: Client, load: Load, published: list[Any], redis_servers: RedisServers
) -> None:
    load(metatiles={"12": 4})
    expired, gone = "/tiles/jams/12/2045/1361.png", "/tiles/jams/12/2047/1362.png"
    client.get(expired)
    paint(published[0])
    tiles_work.expire_layer("jams", LayerPart.of(grid.tile_bounds(12, 2045, 1361).as_list()))
    redis_servers.cache.client.delete(contents.content_name(Tile("jams", 12, 2047, 1362).content_key))
    assert client.get(gone).status_code == 302
    assert client.get(expired)["Cache-Status"].endswith("detail=claimed")
    assert len(published) == 2


def test_tiles_of_a_deleted_layer_are_404(
    client: Client, load: Load, published: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = load()
    client.get(f"/tiles/jams/{LONDON}.png")
    view = LayerView.of(layer)
    layer.delete()
    paint(published[0])
    monkeypatch.setattr(layers, "layer_snapshot", lambda slug: view)
    assert client.get(f"/tiles/jams/{LONDON}.png").status_code == 404


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


def test_tilejson_bounds_do_not_cross_the_antimeridian(client: Client, load: Load) -> None:
    load(bounds=[170, -20, -170, 20])
    assert json.loads(client.get("/tiles/jams.json").content)["bounds"] == [-180, -20, 180, 20]


def test_layers_that_are_switched_off_or_without_data_are_404(client: Client, load: Load) -> None:
    load(enabled=False)
    Layer.objects.create(slug="bare")
    for address in (f"jams/{LONDON}.png", f"bare/{LONDON}.png", "jams.json", "unknown.json", "unknown@2x.json"):
        assert client.get(f"/tiles/{address}").status_code == 404


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
    keys = np.unique(np.array([grid.tile_key(x, y) for x, y in places]))
    return TouchedTiles((*[grid_arrays.no_keys()] * zoom, keys), keys)


def test_a_change_is_told_with_its_tiles(load: Load) -> None:
    found = told(load(), (7, tiles((2, 5), (3, 1))), (2, tiles((7, 7))))
    assert [change["version"] for change in found["changes"]] == [at(7), at(2)]
    assert found["changes"][0] == {"version": at(7), "deepest": 3, "zooms": {"3": [3, 1, 2, 5]}, "below": [3, 1, 2, 5]}
    assert at(40) < found["since"] < at(7)


def test_old_changes_are_no_longer_told(load: Load) -> None:
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


@pytest.mark.parametrize(("radius", "painted"), [(20, False), (100, True)])
def test_a_tile_beside_the_bounds_is_painted_when_heat_reaches_it(
    client: Client, load: Load, monkeypatch: pytest.MonkeyPatch, radius: int, painted: bool
) -> None:
    load("warm", "points", collection(point(1, [0.2, 0.2])), style={"mode": "heat", "radius": radius})
    tile = Tile("warm", 8, 127, 127)  # its edge is 37 pixels to the west
    assert (painter.paint_tile(work.load_scene("warm")[1], tile) is not painter.encode_empty_tile(1, "png")) is painted
    monkeypatch.setattr("retry.deferral.serve_or_defer", Mock(return_value=HttpResponse("deferred")))
    assert (client.get("/tiles/warm/8/127/127.png").content == b"deferred") is painted


UPSTREAM_TILE = "/tiles/osm/3/5/2"


def test_cold_upstream_tiles_go_to_fetchers(client: Client, upstream: LoadUpstream, published: list[Any]) -> None:
    layer = upstream()
    assert client.get(f"{UPSTREAM_TILE}@2x.webp").status_code == 302
    [(task, work_key, _, arguments, lane)] = published
    assert (task, lane) == ("resources.fetch_tile", "fetch.fast")
    assert work_key == f"fetch:tile:osm:3:5:2@2x:webp:{layer.version}"
    assert arguments == ("https://tiles.example.org/3/5/2@2x.png", "osm", 3, 5, 2, 2, "webp")


def test_expired_parts_are_fetched_in_the_slower_lane(
    client: Client, upstream: LoadUpstream, store: Store, published: list[Any]
) -> None:
    store(Prepared(image(image_format="JPEG"), "image/jpeg", 60, 600, version=upstream().version))
    assert client.get(f"{UPSTREAM_TILE}.png")["Content-Type"] == "image/jpeg"
    work.expire_layer("osm", LayerPart.of(None, 4, 9))
    assert client.get(f"{UPSTREAM_TILE}.png")["Server-Timing"].endswith("desc=hit")
    assert not published
    work.expire_layer("osm", LayerPart.of([45.0, 41.0, 90.0, 66.0], 3, 3))
    assert client.get(f"{UPSTREAM_TILE}.png").status_code == 200
    assert [call[-1] for call in published] == ["fetch.refresh"]


def test_dense_tiles_that_a_server_lacks_are_404(client: Client, upstream: LoadUpstream, published: list[Any]) -> None:
    upstream(template=PLAIN)
    assert client.get(f"{UPSTREAM_TILE}@2x.png").status_code == 404
    assert client.get(f"{UPSTREAM_TILE}.png").status_code == 302


def test_beyond_bounds_and_zooms_nobody_is_asked(client: Client, upstream: LoadUpstream, published: list[Any]) -> None:
    upstream(bounds=[0.0, 50.0, 1.0, 51.0], min_zoom=2)
    response = client.get("/tiles/osm/5/3/3.png")
    assert (response.status_code, response.content) == (200, painter.encode_empty_tile(1, "png"))
    assert client.get("/tiles/osm/1/0/0.png").status_code == 404
    assert not published


def test_tilejson_of_upstream_tiles_has_no_legend_and_no_other_address(client: Client, upstream: LoadUpstream) -> None:
    upstream(template=PLAIN)
    text = client.get("/tiles/osm.json").content.decode()
    described = json.loads(text)
    assert described["tiles"] == ["http://testserver/tiles/osm/{z}/{x}/{y}.png"]
    assert (described["classes"], described["attribution"]) == ([], "© Somebody")
    assert "secret" not in text
    assert "example.org" not in text
